"""One look at a repository that a platform keeps: its name, its head, its pull requests.

Reads as a table of contents; what goes wrong becomes words on the repository and a later look.
"""

import asyncio
import logging
from typing import Protocol

import msgspec

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.connections.repositories import why_not_connectable
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError, Platform, RemoteRepository
from agentjobs.git.process import GitError
from agentjobs.local_git import repositories
from agentjobs.local_git.copies import fetch_trouble, refresh_copy
from agentjobs.platform_sync.claims import DueSync, PlatformRepo, SyncClaim, next_due_at
from agentjobs.platform_sync.connection_state import fail_connection, rest_connection
from agentjobs.platform_sync.pulls import ANSWER_SECONDS, OnComment, OnReady, PullsSeen, PullSync
from agentjobs.platform_sync.repo_rows import follow_name, record_head
from agentjobs.problems import Problem
from agentjobs.repos.names import validate_platform_name
from agentjobs.settings.model import Settings
from agentjobs.store.database import Database

# The next sync is the retry; within one sync there is little time for retries.
RETRY_SECONDS = 5.0
# What was to be heard later is heard so soon.
AGAIN_SECONDS = 30
_log = logging.getLogger(__name__)


class PlatformSource(Protocol):
    async def adapter_for(self, connection_id: str, retry_budget: RetryBudget, /) -> Platform:
        """Raises ForgeError."""


class RepositoryGone(Exception):
    """The platform has no such repository any more, or does not show it to us."""


class PlatformUnreachable(Exception):
    """The platform did not answer the first question, or not in time."""


class PlatformSync:
    """One for a process. `on_ready` is called in the transaction that records a draft as ready;
    `on_comment` for each new comment on a pull request of ours, in their order, until it returned.
    """

    def __init__(
        self,
        db: Database,
        platforms: PlatformSource,
        settings: Settings,
        on_ready: OnReady,
        on_comment: OnComment,
    ) -> None:
        self._db = db
        self._platforms = platforms
        self._settings = settings
        self._pulls = PullSync(db, on_ready, on_comment)

    async def sync(self, claim: SyncClaim) -> bool:
        """False: it failed, as its row says now."""
        due = claim.due
        try:
            seen = await self._look(due)
        except RepositoryGone as error:
            await claim.fail(str(error))
        except PlatformUnreachable as error:
            await claim.fail(str(error))
            await rest_connection(self._db, due)
        except ForgeError as error:
            if error.fault == "unauthorized":
                await fail_connection(self._db, due, str(error))
            else:
                await claim.fail(str(error))
        else:
            await self._finish(claim, seen)
            return True
        _log.warning("a platform's repository was not read", extra={"fields": _fields(due)})
        return False

    async def _finish(self, claim: SyncClaim, seen: PullsSeen) -> None:
        due, now = claim.due, now_ms()
        whole_due_at = due.whole_due_at
        if due.is_whole or whole_due_at is None:
            whole_due_at = next_due_at(due, self._settings.forge_poll_seconds, now)
        again_at = now + AGAIN_SECONDS * SECOND_MS if seen.is_waiting else None
        await claim.finish(whole_due_at, seen.note, again_at=again_at)

    async def _look(self, due: DueSync) -> PullsSeen:
        """Its note: what keeps it from being of use, or could not be read."""
        platform, seen = await self._first_answer(due)
        repo, note = due.repo, None
        trouble: ForgeError | None = None
        if seen is not None:
            repo, note = await _follow_name(self._db, due.repo, seen)
            note = why_not_connectable(seen) or note
        if seen is not None and seen.default_branch:
            try:
                await self._follow_head(due, repo, platform, seen.default_branch)
            except ForgeError as error:
                if error.fault == "unauthorized":
                    raise
                # What became of its pull requests can be read all the same.
                trouble = error
        pulls = await self._pulls.sync(due, repo, platform, is_there=seen is not None)
        if trouble is not None:
            raise trouble
        return PullsSeen(note or pulls.note, is_waiting=pulls.is_waiting)

    async def _first_answer(self, due: DueSync) -> tuple[Platform, RemoteRepository | None]:
        """None: only its pull requests are to be asked about."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                retry_budget = RetryBudget(RETRY_SECONDS)
                platform = await self._platforms.adapter_for(due.repo.connection_id, retry_budget)
                asks = due.asks_repository
                return platform, (await _seen(platform, due.repo)) if asks else None
        except TimeoutError:
            words = f"did not answer within {ANSWER_SECONDS:.0f} s; it is asked again later"
            raise PlatformUnreachable(f"The platform of {due.repo.full_name} {words}.") from None

    async def _follow_head(
        self, due: DueSync, repo: PlatformRepo, platform: Platform, branch: str
    ) -> None:
        target = repositories.path(self._settings.data_path, repo.id)
        try:
            async with platform.open_remote(repo.address, "") as remote:
                head = await refresh_copy(remote, target, branch)
        except GitError as error:
            raise fetch_trouble(repo.full_name, branch, error) from None
        except OSError as error:
            words = f"Its copy cannot be written ({error.strerror}); tell the operator."
            raise ForgeError(words, "away") from None
        await self._db.transact(record_head, repo, branch, head, again=due.failures > 0)


async def _seen(platform: Platform, repo: PlatformRepo) -> RemoteRepository:
    try:
        return await platform.repository(repo.address)
    except ForgeError as error:
        if error.fault == "away":
            raise PlatformUnreachable(str(error)) from None
        if error.fault != "gone":
            raise
        raise RepositoryGone(
            f"{repo.full_name} is not there any more, or not shown to this connection: restore it"
            f" or its permission on the platform, or disconnect it here. ({error})"
        ) from None


async def _follow_name(
    db: Database, repo: PlatformRepo, seen: RemoteRepository
) -> tuple[PlatformRepo, str | None]:
    """The repository by its name of now, and what is to be said of it if that cannot be ours."""
    if seen.full_name == repo.full_name:
        return repo, None
    renamed = msgspec.structs.replace(repo, full_name=seen.full_name)
    try:
        validate_platform_name(seen.full_name)
    except Problem as problem:
        return renamed, problem.message
    if await follow_name(db, repo, seen.full_name):
        return renamed, None
    return renamed, (
        f"Its platform calls it {seen.full_name} now, and another repository is connected by that"
        " name: disconnect that one first."
    )


def _fields(due: DueSync) -> dict[str, object]:
    return {"repo_id": due.repo.id, "failures": due.failures + 1}
