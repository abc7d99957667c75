"""A bare mirror per repository, which fetches every base commit once.

Holds objects and a ref per base branch; knows no work trees. A mirror is a cache: a damaged one is
deleted and fetched again.
"""

import contextlib
import functools
import hashlib
import logging
import os
import re
import secrets
import time
from pathlib import Path

from agentjobs_runtime.files.cache import CacheItem
from agentjobs_runtime.files.copying import measure_tree
from agentjobs_runtime.files.locks import KeyedLocks, borrow, try_lock
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import has_whole_commit, resolve
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote, is_branch_name
from agentjobs_runtime.mirrors.errors import BaseBranchMissing, RepoUnavailable, repo_unavailable
from agentjobs_runtime.threads import run_in_thread

FETCH_TIMEOUT_SECONDS = 1_800
INCOMING_PREFIX = "incoming-"
DISCARDED_PREFIX = "discarded-"
DAMAGE_FILE = "damaged"
UNUSED_OBJECTS_EXPIRE = "2.days.ago"
# Longer than any fetch or commit takes.
UNUSED_SECONDS = 2 * 3_600

_log = logging.getLogger(__name__)

_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_BRANCH_IS_MISSING = re.compile(r"couldn't find remote ref|Couldn't find remote ref")
_DAMAGE = re.compile(
    r"is empty|is corrupt|bad object|bad tree|unable to read|inflate|not a git repository"
    r"|did not send all necessary objects|missing (blob|tree|commit)|Could not read"
)


class Mirrors:
    """Mirrors used within `recent_seconds` are kept: a job may be about to mark them in use."""

    def __init__(self, root: Path, *, recent_seconds: float = 60) -> None:
        self._root = root
        self._recent_seconds = recent_seconds
        self._locks = KeyedLocks(root / "locks")
        self._last_commits: dict[str, str] = {}
        self._sizes: dict[Path, tuple[tuple[int, ...], int]] = {}

    def path(self, repo_id: str) -> Path:
        if not _REPO_ID.fullmatch(repo_id):
            raise ValueError(f"{repo_id!r} is not a repository id")
        return self._root / f"{repo_id}.git"

    async def fetch_commit(
        self, repo_id: str, remote: Remote, *, branch: str, known_head: str | None
    ) -> str:
        """Make sure the mirror has the branch's commit; no network if it has `known_head`.

        Raises BaseBranchMissing and RepoUnavailable.
        """
        try:
            return await self._fetch_commit(repo_id, remote, branch, known_head)
        except GitError as error:
            raise repo_unavailable("the repository cannot be fetched", remote, error) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise RepoUnavailable(f"the repository cannot be stored: {reason}") from error

    def in_use(self, repo_id: str) -> contextlib.AbstractContextManager[bool]:
        """The cache does not drop the mirror in this context."""
        return borrow(self.path(repo_id))

    async def items(self) -> list[CacheItem]:
        return await run_in_thread(self._items)

    async def collect_garbage(self) -> None:
        """Repack and remove unreachable objects. Called periodically."""
        for leftover in self._root.glob(f"{DISCARDED_PREFIX}*"):
            await run_in_thread(remove, leftover)
        for mirror in sorted(self._root.glob("*.git")):
            async with self._locks.hold(mirror.name.removesuffix(".git")):
                await _collect_garbage(mirror)

    async def _fetch_commit(
        self, repo_id: str, remote: Remote, branch: str, known_head: str | None
    ) -> str:
        if known_head is not None and await self._has(repo_id, known_head):
            return known_head
        if not is_branch_name(branch):
            raise BaseBranchMissing(branch)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with self._locks.hold(repo_id):
            if known_head is not None and await self._has(repo_id, known_head):
                return known_head
            commit = await self._fetch_or_replace(repo_id, remote, branch)
        self._last_commits[repo_id] = commit
        return commit

    async def _has(self, repo_id: str, commit: str) -> bool:
        mirror = self.path(repo_id)
        if not (mirror / "HEAD").exists() or (mirror / DAMAGE_FILE).exists():
            return False
        # Mark it first, so that the cache does not drop it before the job uses it.
        with self.in_use(repo_id):
            return await self._has_commit(repo_id, commit)

    async def _has_commit(self, repo_id: str, commit: str) -> bool:
        if self._last_commits.get(repo_id) == commit:
            return True
        if not await has_whole_commit(self.path(repo_id), commit):
            return False
        self._last_commits[repo_id] = commit
        return True

    async def _fetch_or_replace(self, repo_id: str, remote: Remote, branch: str) -> str:
        if not (self.path(repo_id) / DAMAGE_FILE).exists():
            try:
                return await self._fetch(repo_id, remote, branch)
            except GitError as error:
                if not reports_damage(error):
                    raise
        await self._delete(repo_id)
        return await self._fetch(repo_id, remote, branch)

    async def _fetch(self, repo_id: str, remote: Remote, branch: str) -> str:
        mirror, ref = self.path(repo_id), _to_ref(branch)
        if not (mirror / "HEAD").exists():
            await self._create(repo_id)
        # A killed fetch may leave it; we hold the mirror's lock, so no other process uses it.
        (mirror / f"{ref}.lock").unlink(missing_ok=True)
        try:
            with self.in_use(repo_id):
                await fetch_ref(mirror, remote, f"+refs/heads/{branch}:{ref}")
        except GitError as error:
            if _BRANCH_IS_MISSING.search(error.stderr):
                raise BaseBranchMissing(branch) from None
            raise
        commit = await resolve(mirror, ref)
        if commit is None:
            raise RepoUnavailable(f"the branch {branch!r} does not name a commit")
        return commit

    async def _create(self, repo_id: str) -> None:
        """All of it or nothing: git refuses a directory that a killed `git init` left."""
        await self._delete(repo_id)
        incoming = self._root / f"{INCOMING_PREFIX}{repo_id}"
        await run_in_thread(remove, incoming)
        await git("init", "--quiet", "--bare", "--template=", "--", str(incoming))
        incoming.rename(self.path(repo_id))

    async def _delete(self, repo_id: str) -> None:
        self._last_commits.pop(repo_id, None)
        if self.path(repo_id).exists():
            await run_in_thread(remove, self._move_away(repo_id))

    def _move_away(self, repo_id: str) -> Path:
        name = f"{DISCARDED_PREFIX}{repo_id}-{secrets.token_hex(4)}"
        return self.path(repo_id).rename(self._root / name)

    def _items(self) -> list[CacheItem]:
        items = []
        for mirror in self._root.glob("*.git"):
            # Another process may drop it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                items.append(self._item(mirror))
        return items

    def _item(self, mirror: Path) -> CacheItem:
        repo_id = mirror.name.removesuffix(".git")
        return CacheItem(
            repo_id,
            f"the mirror of {repo_id}",
            self._size(mirror),
            mirror.stat().st_mtime_ns,
            functools.partial(self._drop, repo_id),
        )

    def _size(self, mirror: Path) -> int:
        """Measured again when packs change; loose objects in between are small."""
        directories = (mirror / "objects", mirror / "objects" / "pack")
        state = tuple(path.stat().st_mtime_ns for path in directories)
        cached = self._sizes.get(mirror)
        if cached is None or cached[0] != state:
            cached = self._sizes[mirror] = (state, measure_tree(mirror)[1])
        return cached[1]

    async def _drop(self, repo_id: str) -> bool:
        mirror = self.path(repo_id)
        descriptor = try_lock(mirror)
        if descriptor is None:
            return False
        try:
            if time.time() - os.fstat(descriptor).st_mtime < self._recent_seconds:
                return False
            self._last_commits.pop(repo_id, None)
            moved = self._move_away(repo_id)
        finally:
            os.close(descriptor)
        await run_in_thread(remove, moved)
        return True


def reports_damage(error: GitError) -> bool:
    return _DAMAGE.search(error.stderr) is not None


def mark_damaged(mirror: Path) -> None:
    """The next job that needs the mirror fetches it again."""
    with contextlib.suppress(OSError):
        (mirror / DAMAGE_FILE).touch()


def _to_ref(branch: str) -> str:
    # Flat and of fixed length: `a/b` may replace the branch `a`, and names may be very long.
    return f"refs/bases/{hashlib.sha256(branch.encode()).hexdigest()}"


async def fetch_ref(mirror: Path, remote: Remote, refspec: str) -> None:
    """Raises GitError."""
    await git(
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--",
        remote.url,
        refspec,
        git_dir=mirror,
        configuration=remote.configuration,
        environment=remote.environment,
        protocols=NETWORK_PROTOCOLS,
        timeout_seconds=FETCH_TIMEOUT_SECONDS,
    )


async def _collect_garbage(mirror: Path) -> None:
    await run_in_thread(_remove_old_incoming, mirror)
    try:
        await git(
            "gc",
            "--auto",
            "--quiet",
            f"--prune={UNUSED_OBJECTS_EXPIRE}",
            git_dir=mirror,
            configuration={"gc.auto": "6700"},
            timeout_seconds=FETCH_TIMEOUT_SECONDS,
        )
    except GitError as error:
        _log.warning("the mirror %s cannot be repacked: %s", mirror.name, error.reason)


def _remove_old_incoming(mirror: Path) -> None:
    for path in (*mirror.glob(f"{INCOMING_PREFIX}*"), *mirror.glob("objects/pack/tmp_*")):
        if path.stat().st_mtime < time.time() - UNUSED_SECONDS:
            remove(path)


def remove_repo_files(mirrors: Path, workspaces: Path, repo_id: str) -> None:
    """Blocking. No job may be using the repository."""
    remove(mirrors / f"{repo_id}.git")
    remove(workspaces / "templates" / repo_id)
    for directory in (mirrors, workspaces):
        remove(directory / "locks" / f"{repo_id}.lock")
