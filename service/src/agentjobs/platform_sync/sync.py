"""One sync of a repository with its platform: its name, its head, its pull requests.

Reads as a table of contents. Failures become an error on the repository and a later sync.
"""

import asyncio
import logging
from typing import Protocol

import msgspec

from agentjobs.connections.repositories import reason_not_connectable
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.platform_outages import end_outages_of_connection
from agentjobs.local_git import repositories
from agentjobs.local_git.copies import fetch_error, refresh_copy
from agentjobs.organizations import audit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.branches import delete_finished_branches
from agentjobs.platform_sync.claims import DueSync, PlatformRepo, SyncClaim, next_due_at
from agentjobs.platform_sync.fetched_heads import FetchedHeads
from agentjobs.platform_sync.hook_registration import HookRegistration
from agentjobs.platform_sync.pulls import TIMEOUT_SECONDS, PullSync, PullSyncResult
from agentjobs.platforms.http.client import ApiError, RetryBudget
from agentjobs.platforms.http.traffic import PollsPaused
from agentjobs.platforms.protocol import Platform, PlatformError, RemoteRepository
from agentjobs.repos.names import validate_platform_name
from agentjobs.repos.platform_rows import record_fetched_head, rename_repo
from agentjobs.store.database import Database, IntegrityError
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem

# Failed syncs are repeated later, so a sync itself retries only briefly.
RETRY_SECONDS = 5.0
# How soon deferred comments are handled again.
DEFERRED_SECONDS = 30
_log = logging.getLogger(__name__)


class PlatformSource(Protocol):
    async def adapter_for(self, connection_id: str, retry_budget: RetryBudget, /) -> Platform:
        """Raises PlatformError."""


class PlatformUnreachable(Exception):
    """The platform did not answer the first request in time, or asked to wait."""

    def __init__(self, message: str, wait_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class PlatformSync:
    """One per process."""

    def __init__(self, context: JobsContext, platforms: PlatformSource, keys: SealingKeys) -> None:
        self._db = context.db
        self._settings = context.settings
        self._platforms = platforms
        self._pulls = PullSync(context)
        self._hooks = HookRegistration(context.db, context.settings, keys)
        self._heads = FetchedHeads()

    async def sync(self, claim: SyncClaim) -> bool:
        """False if it failed; the repository's row then has the error."""
        due = claim.due
        try:
            result = await self._sync(due)
        except PollsPaused as error:
            await self._db.transact(claim.postpone, error.retry_after_seconds)
            return True
        except PlatformUnreachable as error:
            await self._db.transact(
                claim.fail, str(error), is_unreachable=True, wait_seconds=error.wait_seconds
            )
        except PlatformError as error:
            fault = await self._connection_fault(due, error) if error.is_of_connection else None
            if fault is not None:
                await self._db.transact(claim.fail_connection, fault)
            else:
                wait_seconds = _requested_wait(error)
                await self._db.transact(claim.fail, str(error), wait_seconds=wait_seconds)
        else:
            await self._finish(claim, result)
            return True
        fields = {"repo_id": due.repo.id, "failures": due.failures + 1}
        _log.warning("the sync of a repository failed", extra={"fields": fields})
        return False

    async def _connection_fault(self, due: DueSync, error: PlatformError) -> str | None:
        """What is wrong with the connection itself; None if the fault is the repository's.

        Platforms sometimes refuse a valid credential for a moment, too.
        """
        try:
            budget = RetryBudget(RETRY_SECONDS)
            platform = await self._platforms.adapter_for(due.repo.connection_id, budget)
            account = await platform.check()
        except PlatformError as fault:
            return str(fault) if fault.is_of_connection else None
        return str(error) if error.fault == "denied" and account.missing else None

    async def _finish(self, claim: SyncClaim, result: PullSyncResult) -> None:
        due, now = claim.due, await self._db.clock_ms()
        full_due_at = due.full_due_at
        if due.is_full or full_due_at is None:
            full_due_at = next_due_at(due, self._settings.platform_poll_seconds, now)
        due_at = now + DEFERRED_SECONDS * SECOND_MS if result.is_incomplete else None
        await self._db.transact(claim.finish, full_due_at, result.note, due_at=due_at)
        if due.failures:
            await end_outages_of_connection(self._db, due.repo.connection_id)

    async def _sync(self, due: DueSync) -> PullSyncResult:
        """The note says what keeps the repository from being used, or what was not read."""
        platform, remote = await self._first_response(due)
        repo, note = due.repo, None
        fetch_error: PlatformError | None = None
        if remote is not None:
            repo, note = await _follow_name(self._db, due.repo, remote)
            note = reason_not_connectable(remote) or note
            await self._hooks.sync(repo, platform)
        if remote is not None and remote.default_branch and not self._heads.skip(due, remote):
            try:
                await self._follow_head(due, repo, platform, remote)
            except PlatformError as error:
                if error.fault == "unauthorized" or isinstance(error, PollsPaused):
                    raise
                # The pull requests can still be read.
                fetch_error = error
        pulls = await self._pulls.sync(due, repo, platform, is_repo_present=remote is not None)
        await delete_finished_branches(self._db, self._settings, repo, platform)
        if fetch_error is not None:
            raise fetch_error
        return PullSyncResult(note or pulls.note, pulls.is_incomplete)

    async def _first_response(self, due: DueSync) -> tuple[Platform, RemoteRepository | None]:
        """None instead of the repository if only its pull requests are read."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                budget = RetryBudget(RETRY_SECONDS, is_poll=due.is_poll)
                platform = await self._platforms.adapter_for(due.repo.connection_id, budget)
                remote = await _fetch(platform, due.repo) if due.reads_repository else None
        except TimeoutError:
            raise PlatformUnreachable(
                f"The platform of {due.repo.full_name} did not answer within"
                f" {TIMEOUT_SECONDS:.0f} s; the sync is repeated later."
            ) from None
        return platform, remote

    async def _follow_head(
        self, due: DueSync, repo: PlatformRepo, platform: Platform, current: RemoteRepository
    ) -> None:
        """Fetch the default branch into the copy and store its head."""
        branch = current.default_branch
        target = repositories.path(self._settings.repositories_path, repo.id)
        try:
            async with platform.open_remote(repo.address, "") as remote:
                head = await refresh_copy(remote, target, branch)
        except GitError as error:
            raise fetch_error(repo.full_name, branch, error) from None
        except OSError as error:
            raise PlatformError(
                f"The copy of the repository cannot be written ({error.strerror});"
                " ask the operator of this service.",
                "away",
            ) from None
        has_moved = (repo.default_branch, repo.head_commit) != (branch, head)
        if has_moved or due.failures:
            await self._db.transact(
                record_fetched_head, repo.id, branch, head, only_unindexed=not has_moved
            )
        self._heads.record(repo.id, current, head, due.claimed_at)


async def _fetch(platform: Platform, repo: PlatformRepo) -> RemoteRepository:
    try:
        return await platform.repository(repo.address)
    except PlatformError as error:
        if error.fault == "away" and not isinstance(error, PollsPaused):
            raise PlatformUnreachable(str(error), _requested_wait(error)) from None
        if error.fault != "gone":
            raise
        raise PlatformError(
            f"{repo.full_name} no longer exists on its platform, or this connection cannot see it:"
            f" restore it or the permission there, or disconnect it here. ({error})"
        ) from None


def _requested_wait(error: PlatformError) -> float:
    """The time that a rate limit asks for."""
    return error.retry_after_seconds if isinstance(error, ApiError) else 0.0


async def _follow_name(
    db: Database, repo: PlatformRepo, remote: RemoteRepository
) -> tuple[PlatformRepo, str | None]:
    """The repository under its current name, and why that name cannot be used here, if so."""
    if remote.full_name == repo.full_name:
        return repo, None
    renamed = msgspec.structs.replace(repo, full_name=remote.full_name)
    try:
        validate_platform_name(remote.full_name)
    except Problem as problem:
        return renamed, problem.message
    entry = audit.entry("repo.renamed", remote.full_name, before=repo.full_name)
    try:
        await db.transact(rename_repo, repo.id, repo.organization_id, remote.full_name, entry)
    except IntegrityError:
        return renamed, (
            f"It was renamed to {remote.full_name} on its platform, and another repository is"
            " connected under that name; disconnect that one first."
        )
    return renamed, None
