"""A fresh tree for one job, copied from a template and removed when the job is over.

Knows nothing of jobs or sandboxes; `publish` checks what the agent changed.
"""

import os
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.fair_slots import FairSlots
from agentjobs_runtime.files.cache import Cache
from agentjobs_runtime.files.copying import (
    IN_PROCESS_ENTRIES,
    chown_tree,
    move_entries,
)
from agentjobs_runtime.files.locks import KeyedLocks
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.checkout_limits import (
    DEFAULT_LIMITS,
    CheckoutLimits,
    check_checkout_size,
)
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.mirrors.mirror import Mirrors, mark_damaged
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.workspace.checkout_quota import CheckoutQuota
from agentjobs_worker.workspace.session import Session
from agentjobs_worker.workspace.spares import Copy, Spares
from agentjobs_worker.workspace.template import (
    Templates,
    build_template,
    copy_template,
    move_template,
    read_size,
)
from agentjobs_worker.workspace.tree_repair import repair_tree

_TICK_SECONDS = 0.004


@dataclass(frozen=True, slots=True)
class Checkout:
    """`index` describes the tree as of `copied_at_ns`; the agent sees neither.

    `entries` is the number of its files and directories then.
    """

    tree: Path
    commit: str
    index: Path
    copied_at_ns: int
    entries: int = 0


class Workspaces:
    """`cache_max_bytes` limits mirrors, templates and spares together; 0: unlimited."""

    def __init__(
        self,
        root: Path,
        mirrors: Mirrors,
        *,
        cache_max_bytes: int = 0,
        limits: CheckoutLimits = DEFAULT_LIMITS,
    ) -> None:
        self._mirrors = mirrors
        self._limits = limits
        self._locks = KeyedLocks(root / "locks")
        self._session = Session(root)
        self._templates = Templates(root / "templates", self._session.directory)
        self._spares = Spares(self._copy_ahead, self._repair, self._on_added)
        self._cache = Cache([self._spares, self._templates, mirrors], cache_max_bytes)
        # More concurrent checkouts than cores slow all of them down. One place more, which no
        # organization gets alone, keeps those of others from waiting.
        cores = os.cpu_count() or 1
        self._slots = FairSlots(cores + 1, per_organization=cores)
        self._quota = CheckoutQuota(limits.organization_bytes)

    @asynccontextmanager
    async def checkout(
        self,
        repo_id: str,
        commit: str,
        *,
        owner_uid: int | None,
        organization_id: str = "",
        into: Path | None = None,
        is_reusable: bool = True,
    ) -> AsyncIterator[Checkout]:
        """A copy of the commit's tree, which is removed at exit whatever its contents.

        A small tree is moved into the directory `into`, which comes from `create_directory` and
        which the caller removes. A large one is repaired for the next job, unless it is not
        `is_reusable`. The mirror is kept until the exit. Organizations share the places for
        checkouts; one that has its quota waits for its other checkouts. Raises RepoUnavailable.
        """
        try:
            with self._mirrors.in_use(repo_id):
                async with self._open_checkout(
                    organization_id, repo_id, commit, owner_uid, into, is_reusable=is_reusable
                ) as checkout:
                    yield checkout
        finally:
            # The items that were in use until now may exceed the limit.
            self._cache.record_added(0)

    @asynccontextmanager
    async def _open_checkout(
        self,
        organization_id: str,
        repo_id: str,
        commit: str,
        owner_uid: int | None,
        into: Path | None,
        *,
        is_reusable: bool,
    ) -> AsyncIterator[Checkout]:
        max_bytes = await self._measure(repo_id, commit)
        async with self._quota.hold(organization_id, max_bytes) as resize:
            copy = await self._spares.take(repo_id, commit)
            directory = copy.directory if copy is not None else self._new_directory()
            checkout: Checkout | None = None
            try:
                if copy is None:
                    copy = await self._fill(directory, organization_id, repo_id, commit)
                resize(copy.size_bytes)
                checkout = await self._hand_over(copy, owner_uid, into)
                yield checkout
            finally:
                await self._reclaim(directory, copy, checkout if is_reusable else None)

    def create_directory(self) -> Path:
        """A directory with an empty tree that a later checkout can move into.

        Blocks for microseconds only. Raises RepoUnavailable.
        """
        directory = self._new_directory()
        try:
            (directory / "tree").mkdir(mode=0o700)
        except OSError as error:
            raise _unwritable(error) from error
        return directory

    async def remove_directory(self, directory: Path) -> None:
        await run_in_thread(remove, directory)

    async def trim_cache(self) -> None:
        """Bring the cache within its limit. Called periodically."""
        self._session.open()
        await self._cache.trim()

    async def empty_cache(self) -> None:
        """Drop everything that no job uses, to free disk space."""
        self._session.open()
        await self._cache.empty()

    async def cached_repos(self) -> set[str]:
        return await self._cache.repo_ids()

    async def drop_repos(self, repo_ids: Collection[str]) -> None:
        """Drop mirrors and copies of repositories that were deleted."""
        self._session.open()
        await self._cache.drop(repo_ids)
        for repo_id in repo_ids:
            self._templates.remove_empty_directory(repo_id)

    async def sweep(self) -> None:
        """Remove the directories of dead processes. Called when a process starts."""
        await run_in_thread(self._session.sweep)

    async def wait_until_idle(self) -> None:
        """Wait for background work: copies, repairs, removals."""
        await self._spares.wait_until_idle()
        await self._cache.wait_until_idle()

    async def close(self) -> None:
        """Remove this process's directory. Called at a clean stop."""
        await self.wait_until_idle()
        await run_in_thread(self._session.close)

    async def _reclaim(self, directory: Path, copy: Copy | None, checkout: Checkout | None) -> None:
        # Starting `diff` to compare costs more than a small copy.
        if copy is not None and checkout is not None and not is_small(copy.entries):
            self._spares.give_back(copy, checkout.copied_at_ns)
            return
        await run_in_thread(remove, directory)
        if copy is not None:
            self._spares.replenish(copy.repo_id, copy.commit)

    def _on_added(self, size_bytes: int) -> None:
        self._cache.record_added(size_bytes)

    def _new_directory(self) -> Path:
        try:
            self._session.open()
            return self._session.new_directory()
        except OSError as error:
            raise _unwritable(error) from error

    async def _measure(self, repo_id: str, commit: str) -> int:
        """The size of the checkout, before it takes a slot that other organizations need."""
        with self._templates.borrow(repo_id, commit) as template:
            if template is not None:
                return (await run_in_thread(read_size, template)).size_bytes
        mirror = self._mirrors.path(repo_id)
        try:
            return (await check_checkout_size(mirror, commit, self._limits)).max_bytes
        except GitError as error:
            raise _unreadable(mirror, error) from None

    async def _fill(self, directory: Path, organization_id: str, repo_id: str, commit: str) -> Copy:
        async with self._slots.hold(organization_id):
            try:
                copy = await run_in_thread(self._copy, directory, repo_id, commit)
                if copy is not None:
                    return copy
                async with self._locks.hold(repo_id):
                    # Another job may have built it meanwhile.
                    copy = await run_in_thread(self._copy, directory, repo_id, commit)
                    copy = copy or await self._build(directory, repo_id, commit)
                self._cache.trim_soon()
            except OSError as error:
                raise _unwritable(error) from error
        return copy

    async def _hand_over(self, copy: Copy, owner_uid: int | None, into: Path | None) -> Checkout:
        try:
            return await run_in_thread(_prepare_checkout, copy, owner_uid, into)
        except OSError as error:
            raise _unwritable(error) from error

    def _copy(self, directory: Path, repo_id: str, commit: str) -> Copy | None:
        with self._templates.borrow(repo_id, commit) as template:
            if template is None:
                return None
            size = copy_template(template, directory)
            return Copy(directory, repo_id, commit, size.entries, size.size_bytes)

    def _copy_ahead(self, repo_id: str, commit: str) -> Copy | None:
        """Runs without a job, so failures are ignored: the next job sees the error itself."""
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

    def _repair(self, copy: Copy, copied_at_ns: int) -> bool:
        try:
            return self._repair_from_template(copy, copied_at_ns)
        except OSError:
            return False

    def _repair_from_template(self, copy: Copy, copied_at_ns: int) -> bool:
        with self._templates.borrow(copy.repo_id, copy.commit) as template:
            if template is None:
                return False
            for path in copy.directory.iterdir():
                if path.name not in {"tree", "index"}:
                    remove(path)
            return repair_tree(copy.directory / "tree", template / "tree", copied_at_ns)

    async def _build(self, directory: Path, repo_id: str, commit: str) -> Copy:
        """Fill the directory, and add a template for later jobs, unless none is kept."""
        mirror = self._mirrors.path(repo_id)
        scratch = self._session.new_directory()
        try:
            allowance = await check_checkout_size(mirror, commit, self._limits)
            await build_template(mirror, commit, scratch, allowance.max_bytes)
            if allowance.is_kept:
                size = await run_in_thread(copy_template, scratch, directory)
                await run_in_thread(self._templates.add, repo_id, commit, scratch)
            else:
                size = await run_in_thread(move_template, scratch, directory)
        except GitError as error:
            raise _unreadable(mirror, error) from None
        finally:
            await run_in_thread(remove, scratch)
        return Copy(directory, repo_id, commit, size.entries, size.size_bytes)


def is_small(entries: int) -> bool:
    """Whether a tree is copied and changed in this process."""
    return entries <= IN_PROCESS_ENTRIES


def _prepare_checkout(copy: Copy, owner_uid: int | None, into: Path | None) -> Checkout:
    tree, index = copy.directory / "tree", copy.directory / "index"
    if into is not None and is_small(copy.entries):
        move_entries(tree, into / "tree")
        tree = into / "tree"
    if owner_uid is not None:
        chown_tree(tree, owner_uid, entries=copy.entries)
    # Last, because this time separates our changes from the agent's.
    return Checkout(tree, copy.commit, index, _next_change_time(index), copy.entries)


def _next_change_time(path: Path) -> int:
    """A change time after every earlier change: files changed in one tick of the clock share it.

    Linux 6.13 and later have an exact time at once, older kernels within a tick of 4 ms.
    """
    os.utime(path)
    earlier = path.stat().st_ctime_ns
    while True:
        os.utime(path)
        if (changed_at := path.stat().st_ctime_ns) > earlier:
            return changed_at
        time.sleep(_TICK_SECONDS / 8)


def _unreadable(mirror: Path, error: GitError) -> RepoUnavailable:
    if not (error.is_lack_of_space or error.is_at_limit):
        # A mirror that cannot provide a commit it lists is damaged.
        mark_damaged(mirror)
    return RepoUnavailable(f"the commit cannot be checked out: {error.reason}")


def _unwritable(error: OSError) -> RepoUnavailable:
    return RepoUnavailable(f"the checkout cannot be written: {error.strerror or error}")
