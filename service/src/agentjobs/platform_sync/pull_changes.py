"""Merges and closes pull requests on the platform that hosts them: first there, then in the row.

If the service stops in between, the next sync of the repository updates the row; the audit log has
the request already.
"""

import asyncio
from typing import NamedTuple

from agentjobs.organizations import audit
from agentjobs.platform_sync.branches import record_ended_pull
from agentjobs.platform_sync.sync import RETRY_SECONDS, PlatformSource
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import (
    MergeMethod,
    Platform,
    PlatformError,
    PullState,
    RemotePull,
    RepoAddress,
)
from agentjobs.pulls import platform_pulls
from agentjobs.pulls.merge import pull_changed
from agentjobs.pulls.pulls import Pull, get_pull_by_id
from agentjobs.repos.queues import request_sync
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem

TIMEOUT_SECONDS = 60.0
_RETRY_AFTER_SECONDS = 10
# A platform may finish a merge that it has accepted in the background.
_MERGE_WAITS = (0.0, 1.0, 2.0)


class _HostedPull(NamedTuple):
    platform: Platform
    repo: RepoAddress
    number: int

    async def read(self) -> RemotePull:
        return await self.platform.pull(self.repo, self.number)


async def merge_platform_pull(
    db: Database,
    platforms: PlatformSource | None,
    pull: Pull,
    *,
    method: MergeMethod,
    head_commit: str | None,
) -> Pull:
    """If `head_commit` is given, it must still be the head. Raises Problem."""
    requested = audit.entry("pull.merge_requested", pull.short_name, method=method)
    entry = audit.entry("pull.merged", pull.short_name, method=method)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            hosted = await _find_hosted(db, platforms, pull)
            _check_method(hosted.platform, method)
            remote = await _read_open(db, hosted, pull)
            if head_commit not in (None, remote.head_commit):
                raise pull_changed(pull, remote.head_commit)
            await db.transact(audit.write, pull.organization_id, requested)
            merged = await _merge(hosted, pull, method, remote.head_commit)
    except TimeoutError:
        raise _unavailable("The platform did not answer in time.") from None
    except PlatformError as error:
        raise _problem(error) from None
    return await _record(db, pull, merged, entry)


async def close_platform_pull(db: Database, platforms: PlatformSource | None, pull: Pull) -> Pull:
    """Raises Problem."""
    requested = audit.entry("pull.close_requested", pull.short_name)
    entry = audit.entry("pull.closed", pull.short_name)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            hosted = await _find_hosted(db, platforms, pull)
            await _read_open(db, hosted, pull)
            await db.transact(audit.write, pull.organization_id, requested)
            await hosted.platform.close_pull(hosted.repo, pull.number)
            closed = await hosted.read()
    except TimeoutError:
        raise _unavailable("The platform did not answer in time.") from None
    except PlatformError as error:
        raise _problem(error) from None
    if closed.state != "closed":
        raise _not_open(pull, closed.state)
    return await _record(db, pull, closed, entry)


async def _find_hosted(db: Database, platforms: PlatformSource | None, pull: Pull) -> _HostedPull:
    row = await db.fetch_one(
        "SELECT connection_id, external_id FROM repos WHERE id = :id", id=pull.repo_id
    )
    if platforms is None or row is None or row["connection_id"] is None:
        raise PlatformError("The repository has no connection to its platform any more.", "gone")
    platform = await platforms.adapter_for(row["connection_id"], RetryBudget(RETRY_SECONDS))
    external_id = row["external_id"] or ""
    repo = RepoAddress(pull.organization, pull.repo, pull.repo_id, external_id)
    return _HostedPull(platform, repo, pull.number)


def _check_method(platform: Platform, method: MergeMethod) -> None:
    if method in platform.merge_methods:
        return
    possible = " or ".join(f"`{method}`" for method in platform.merge_methods)
    message = f"must be {possible} for a repository on {platform.platform}"
    raise Problem(
        "validation_failed",
        f"method {message}.",
        details=[{"field": "method", "message": message}],
    )


async def _read_open(db: Database, hosted: _HostedPull, pull: Pull) -> RemotePull:
    remote = await hosted.read()
    if remote.state != "open":
        # The row will follow.
        await db.transact(request_sync, pull.repo_id)
        raise _not_open(pull, remote.state)
    return remote


async def _merge(
    hosted: _HostedPull, pull: Pull, method: MergeMethod, head_commit: str
) -> RemotePull:
    try:
        await hosted.platform.merge_pull(
            hosted.repo, pull.number, method=method, head_commit=head_commit
        )
    except PlatformError:
        remote = await hosted.read()
        if remote.state == "merged":
            # The response was lost, or another client was faster.
            return remote
        if remote.state == "closed":
            raise _not_open(pull, remote.state) from None
        if remote.head_commit != head_commit:
            raise pull_changed(pull, remote.head_commit) from None
        raise
    for seconds in _MERGE_WAITS:
        await asyncio.sleep(seconds)
        if (remote := await hosted.read()).state == "merged":
            return remote
    raise _unavailable("The platform accepted the merge, but has not finished it.")


async def _record(db: Database, pull: Pull, remote: RemotePull, entry: audit.Entry) -> Pull:
    await db.transact(_update, pull, remote, entry)
    return await get_pull_by_id(db, pull.organization, pull.id)


async def _update(tx: Transaction, pull: Pull, remote: RemotePull, entry: audit.Entry) -> None:
    if await platform_pulls.record_end(tx, pull.repo_id, remote, entry.actor.name):
        await audit.write(tx, pull.organization_id, entry)
        await record_ended_pull(tx, pull.repo_id, remote)
    # The base branch has moved, and the head branch can be deleted.
    await request_sync(tx, pull.repo_id)
    tx.announce(f"events:{pull.organization_id}")


def _not_open(pull: Pull, state: PullState) -> Problem:
    return Problem("pull_not_open", f"Pull request {pull.number} is already {state}.")


def _problem(error: PlatformError) -> Problem:
    if error.fault in {"away", "unusable"}:
        return _unavailable(str(error))
    return Problem("pull_not_mergeable", str(error))


def _unavailable(reason: str) -> Problem:
    return Problem(
        "forge_unavailable",
        f"{reason} Read the pull request before you repeat the request.",
        retry_after_seconds=_RETRY_AFTER_SECONDS,
    )
