"""A bare mirror per repository: every commit a job starts from, fetched once.

Holds objects and a ref per base branch; knows no work trees. A mirror is a cache: a damaged one is
thrown away and fetched again.
"""

import contextlib
import hashlib
import logging
import re
import secrets
import time
from pathlib import Path

from agentjobs.git.process import GitError, git
from agentjobs.git.refs import has_commit, resolve
from agentjobs.git.remote import NETWORK_PROTOCOLS, Remote, is_away, is_branch_name
from agentjobs.workspace.errors import BaseBranchMissing, RepoUnavailable
from agentjobs.workspace.locks import KeyedLocks
from agentjobs.workspace.removal import remove
from agentjobs.workspace.threads import to_its_end

FETCH_TIMEOUT_SECONDS = 1_800
INCOMING_PREFIX = "incoming-"
DISCARDED_PREFIX = "discarded-"
DAMAGE_MARK = "damaged"
UNUSED_OBJECTS_EXPIRE = "2.days.ago"
UNUSED_SECONDS = 2 * 86_400

_log = logging.getLogger(__name__)

_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_BRANCH_IS_MISSING = re.compile(r"couldn't find remote ref|Couldn't find remote ref")
_DAMAGE = re.compile(
    r"is empty|is corrupt|bad object|bad tree|unable to read|inflate|not a git repository"
    r"|did not send all necessary objects|missing (blob|tree|commit)|Could not read"
)


class Mirrors:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks = KeyedLocks(root / "locks")
        self._last_seen: dict[str, str] = {}

    def path(self, repo_id: str) -> Path:
        if not _REPO_ID.fullmatch(repo_id):
            raise ValueError(f"{repo_id!r} is not a repository id")
        return self._root / f"{repo_id}.git"

    async def commit_of(
        self, repo_id: str, remote: Remote, *, branch: str, known_head: str | None
    ) -> str:
        """The commit of the branch, present in the mirror; no network when `known_head` is there.

        Raises BaseBranchMissing and RepoUnavailable.
        """
        try:
            return await self._commit_of(repo_id, remote, branch, known_head)
        except GitError as error:
            message = f"the repository cannot be fetched: {error.reason}"
            raise RepoUnavailable(message, may_pass=is_away(error.stderr)) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise RepoUnavailable(f"the repository cannot be stored: {reason}") from error

    async def tidy(self) -> None:
        """Pack what many fetches left and drop objects no branch needs; for quiet hours."""
        for leftover in self._root.glob(f"{DISCARDED_PREFIX}*"):
            await to_its_end(remove, leftover)
        for mirror in sorted(self._root.glob("*.git")):
            async with self._locks.hold(mirror.name.removesuffix(".git")):
                await _tidy_one(mirror)

    async def _commit_of(
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
            commit = await self._fetch_mended(repo_id, remote, branch)
        self._last_seen[repo_id] = commit
        return commit

    async def _has(self, repo_id: str, commit: str) -> bool:
        mirror = self.path(repo_id)
        if not (mirror / "HEAD").exists() or (mirror / DAMAGE_MARK).exists():
            return False
        if self._last_seen.get(repo_id) == commit:
            return True
        if not await has_commit(mirror, commit):
            return False
        self._last_seen[repo_id] = commit
        return True

    async def _fetch_mended(self, repo_id: str, remote: Remote, branch: str) -> str:
        if not (self.path(repo_id) / DAMAGE_MARK).exists():
            try:
                return await self._fetch(repo_id, remote, branch)
            except GitError as error:
                if not speaks_of_damage(error):
                    raise
        await self._throw_away(repo_id)
        return await self._fetch(repo_id, remote, branch)

    async def _fetch(self, repo_id: str, remote: Remote, branch: str) -> str:
        mirror, ref = self.path(repo_id), _ref_of(branch)
        if not (mirror / "HEAD").exists():
            await git("init", "--quiet", "--bare", "--template=", "--", str(mirror))
        # Left by a fetch that was killed; nobody else holds it, for we hold the mirror's lock.
        (mirror / f"{ref}.lock").unlink(missing_ok=True)
        try:
            await git(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--",
                remote.url,
                f"+refs/heads/{branch}:{ref}",
                git_dir=mirror,
                configuration=remote.configuration,
                protocols=NETWORK_PROTOCOLS,
                timeout_seconds=FETCH_TIMEOUT_SECONDS,
            )
        except GitError as error:
            if _BRANCH_IS_MISSING.search(error.stderr):
                raise BaseBranchMissing(branch) from None
            raise
        commit = await resolve(mirror, ref)
        if commit is None:
            raise RepoUnavailable(f"the branch {branch!r} does not name a commit")
        return commit

    async def _throw_away(self, repo_id: str) -> None:
        self._last_seen.pop(repo_id, None)
        mirror = self.path(repo_id)
        if mirror.exists():
            moved = mirror.rename(
                self._root / f"{DISCARDED_PREFIX}{repo_id}-{secrets.token_hex(4)}"
            )
            await to_its_end(remove, moved)


def speaks_of_damage(error: GitError) -> bool:
    return _DAMAGE.search(error.stderr) is not None


def mark_damaged(mirror: Path) -> None:
    """Whoever needs the mirror next fetches it anew."""
    with contextlib.suppress(OSError):
        (mirror / DAMAGE_MARK).touch()


def _ref_of(branch: str) -> str:
    # Flat and of fixed length: the branch `a` may be replaced by `a/b`, or be very long.
    return f"refs/bases/{hashlib.sha256(branch.encode()).hexdigest()}"


async def _tidy_one(mirror: Path) -> None:
    await to_its_end(_remove_old_incoming, mirror)
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
        _log.warning("the mirror %s cannot be tidied: %s", mirror.name, error.reason)


def _remove_old_incoming(mirror: Path) -> None:
    for path in mirror.glob(f"{INCOMING_PREFIX}*"):
        if path.stat().st_mtime < time.time() - UNUSED_SECONDS:
            remove(path)
