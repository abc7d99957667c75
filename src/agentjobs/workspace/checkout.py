"""A fresh tree for one job, copied from a warm one and gone when the job is over.

Knows nothing of jobs or sandboxes; what comes back from the agent is judged in `publish`.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentjobs.git.process import GitError
from agentjobs.workspace.cache import Cache
from agentjobs.workspace.copying import IN_PROCESS_ENTRIES, copy_tree, give_tree
from agentjobs.workspace.errors import RepoUnavailable
from agentjobs.workspace.locks import KeyedLocks
from agentjobs.workspace.mirror import Mirrors, mark_damaged
from agentjobs.workspace.removal import remove
from agentjobs.workspace.session import Session
from agentjobs.workspace.spares import Copy, Spares
from agentjobs.workspace.template import Templates, build_template, size_of
from agentjobs.workspace.threads import to_its_end
from agentjobs.workspace.tree_repair import mend_tree

# Another job may have made the caches be trimmed between building and copying.
BUILD_TRIES = 3


@dataclass(frozen=True, slots=True)
class Checkout:
    """`index` describes the tree as it was handed out at `copied_at_ns`; the agent sees neither."""

    tree: Path
    commit: str
    index: Path
    copied_at_ns: int


class Workspaces:
    """`cache_max_bytes` bounds mirrors, templates and spares together; 0: nothing does."""

    def __init__(self, root: Path, mirrors: Mirrors, *, cache_max_bytes: int = 0) -> None:
        self._mirrors = mirrors
        self._locks = KeyedLocks(root / "locks")
        self._session = Session(root)
        self._templates = Templates(root / "templates", self._session.directory)
        self._spares = Spares(self._copy_ahead, self._mend, self._added)
        self._cache = Cache([self._spares, self._templates, mirrors], cache_max_bytes)
        # More checkouts at once than cores is slower for all.
        self._turns = asyncio.Semaphore(os.cpu_count() or 1)

    @asynccontextmanager
    async def checkout(
        self, repo_id: str, commit: str, *, owner_uid: int | None
    ) -> AsyncIterator[Checkout]:
        """A copy of the commit's tree, gone at exit whatever was done to it.

        Until then the mirror stays. Raises RepoUnavailable.
        """
        try:
            with self._mirrors.in_use(repo_id):
                async with self._lent(repo_id, commit, owner_uid) as checkout:
                    yield checkout
        finally:
            # What was in use until now may have been too much.
            self._cache.added(0)

    @asynccontextmanager
    async def _lent(
        self, repo_id: str, commit: str, owner_uid: int | None
    ) -> AsyncIterator[Checkout]:
        copy = await self._spares.take(repo_id, commit)
        directory = copy.directory if copy is not None else self._new_directory()
        handed: Checkout | None = None
        try:
            if copy is None:
                copy = await self._fill(directory, repo_id, commit)
            handed = await self._hand_over(copy, owner_uid)
            yield handed
        finally:
            await self._take_back(directory, copy, handed)

    async def tidy(self) -> None:
        """Bring the cache within its bound; for quiet hours."""
        self._session.open()
        await self._cache.trim()

    async def sweep(self) -> None:
        """Remove what processes that died left behind; for the start of a process."""
        await to_its_end(self._session.sweep)

    async def settle(self) -> None:
        """Wait for what goes on in the background: copies, mending, removals."""
        await self._spares.settle()
        await self._cache.settle()

    async def close(self) -> None:
        """Give this process's own directory back; for a clean stop."""
        await self.settle()
        await to_its_end(self._session.close)

    async def _take_back(self, directory: Path, copy: Copy | None, handed: Checkout | None) -> None:
        # Starting a program to compare costs more than a small copy.
        if copy is not None and handed is not None and copy.entries > IN_PROCESS_ENTRIES:
            self._spares.give_back(copy, handed.copied_at_ns)
            return
        await to_its_end(remove, directory)
        if copy is not None:
            self._spares.replenish(copy.repo_id, copy.commit)

    def _added(self, size_bytes: int) -> None:
        self._cache.added(size_bytes)

    def _new_directory(self) -> Path:
        try:
            self._session.open()
            return self._session.new_directory()
        except OSError as error:
            raise _unwritable(error) from error

    async def _fill(self, directory: Path, repo_id: str, commit: str) -> Copy:
        async with self._turns:
            try:
                warm = await to_its_end(self._copy, directory, repo_id, commit)
                if warm is not None:
                    return warm
                # Copied under the lock too: two later builds would retire the template.
                async with self._locks.hold(repo_id):
                    built = await self._copy_of_new(directory, repo_id, commit)
                # Not before it is copied: a template above the bound goes at once.
                self._cache.trim_soon()
            except OSError as error:
                raise _unwritable(error) from error
        if built is None:
            raise RepoUnavailable("the checkout was removed while it was being copied")
        return built

    async def _copy_of_new(self, directory: Path, repo_id: str, commit: str) -> Copy | None:
        for _ in range(BUILD_TRIES):
            await self._build(repo_id, commit)
            built = await to_its_end(self._copy, directory, repo_id, commit)
            if built is not None:
                return built
        return None

    async def _hand_over(self, copy: Copy, owner_uid: int | None) -> Checkout:
        try:
            return await to_its_end(_handed_over, copy, owner_uid)
        except OSError as error:
            raise _unwritable(error) from error

    def _copy(self, directory: Path, repo_id: str, commit: str) -> Copy | None:
        with self._templates.borrow(repo_id, commit) as template:
            if template is None:
                return None
            size = size_of(template)
            copy_tree(template / "tree", directory / "tree", entries=size.entries)
            shutil.copyfile(template / "index", directory / "index")
            return Copy(directory, repo_id, commit, size.entries, size.size_bytes)

    def _copy_ahead(self, repo_id: str, commit: str) -> Copy | None:
        """For no job yet, so a failure is nobody's: the next job meets it itself."""
        try:
            directory = self._session.new_directory()
        except OSError:
            return None
        try:
            copy = self._copy(directory, repo_id, commit)
        except OSError:
            copy = None
        if copy is None:
            remove(directory)
        return copy

    def _mend(self, copy: Copy, copied_at_ns: int) -> bool:
        try:
            return self._mended(copy, copied_at_ns)
        except OSError:
            return False

    def _mended(self, copy: Copy, copied_at_ns: int) -> bool:
        with self._templates.borrow(copy.repo_id, copy.commit) as template:
            if template is None:
                return False
            for path in copy.directory.iterdir():
                if path.name not in {"tree", "index"}:
                    remove(path)
            return mend_tree(copy.directory / "tree", template / "tree", copied_at_ns)

    async def _build(self, repo_id: str, commit: str) -> None:
        with self._templates.borrow(repo_id, commit) as template:
            if template is not None:
                return
        scratch = self._session.new_directory()
        try:
            await build_template(self._mirrors.path(repo_id), commit, scratch)
            await to_its_end(self._templates.keep, repo_id, commit, scratch)
        except GitError as error:
            if not error.is_lack_of_space:
                # A mirror that cannot give a commit it has is damaged.
                mark_damaged(self._mirrors.path(repo_id))
            raise RepoUnavailable(f"the commit cannot be checked out: {error.reason}") from None
        finally:
            await to_its_end(remove, scratch)


def _handed_over(copy: Copy, owner_uid: int | None) -> Checkout:
    tree, index = copy.directory / "tree", copy.directory / "index"
    if owner_uid is not None:
        give_tree(tree, owner_uid, entries=copy.entries)
    # Done last: its time parts what we did to the tree from what the agent will do.
    os.utime(index)
    return Checkout(tree, copy.commit, index, index.stat().st_ctime_ns)


def _unwritable(error: OSError) -> RepoUnavailable:
    return RepoUnavailable(f"the checkout cannot be written: {error.strerror or error}")
