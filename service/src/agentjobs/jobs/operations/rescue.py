"""Ends the claims whose lease expired: a job with an open pull request completes, others are
requeued, and after too many lost workers they fail with `worker_lost`."""

from collections.abc import Callable

from agentjobs.jobs.logs.chunks import append_note
from agentjobs.jobs.queue.claim import is_on_worker
from agentjobs.jobs.queue.lost_claims import (
    HAS_RETURNED,
    count_lost_claims,
    describe_failure,
    record_lost_claim,
)
from agentjobs.jobs.queue.transition import (
    Change,
    apply,
    release_claim,
    to_cancelled,
    to_failed,
    to_queued,
)
from agentjobs.jobs.states import COMPLETED, RUNNING
from agentjobs.pulls.pulls import pull_path
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.settings import Settings

_BATCH = 100
_CLAIMED = (
    "SELECT j.id, j.status, q.fence, j.cancel_requested_at, j.repo_id,"
    " q.lease_expires_at, j.branch, j.follows, o.name AS organization, r.full_name,"
    f" {HAS_RETURNED} AS has_returned"
    " FROM job_queue q JOIN jobs j ON j.id = q.job_id"
    " JOIN organizations o ON o.id = q.organization_id JOIN repos r ON r.id = q.repo_id"
)
# Expired, or from before the clock was set back: a lost worker's would last for too long.
_HAS_EXPIRED = (
    f"SELECT 1 AS found FROM job_queue q WHERE {is_on_worker('q')} AND (q.lease_expires_at <"
    f" {DATABASE_NOW} OR q.lease_expires_at > {DATABASE_NOW} + CAST(:max_ms AS BIGINT)) LIMIT 1"
)
_EXPIRED = (
    f"{_CLAIMED} WHERE {is_on_worker('q')}"
    " AND (q.lease_expires_at < :now OR q.lease_expires_at > :limit)"
    " LIMIT :batch /*postgresql FOR UPDATE OF q, j SKIP LOCKED */"
)
_SHORTEN = (
    "UPDATE job_queue SET lease_expires_at = :until"
    " WHERE lease_owner IS NOT NULL AND lease_expires_at > :limit"
)
_MAX_CLOCK_STEP_MS = 60_000
# How long a worker that is cut off can report that it is alive before its job fails for good.
_REPORT_LEASES = 3
_OF_WORKER = f"{_CLAIMED} WHERE q.lease_owner = :worker_id /*postgresql FOR UPDATE OF q, j */"


async def rescue_lost_jobs(
    db: Database, settings: Settings, may_judge: Callable[[], bool] = lambda: True
) -> list[str]:
    """Return the identifiers of the jobs whose claims ended, because their lease had expired.

    `may_judge`: whether workers were able to renew their leases. Otherwise only claims that
    workers gave up end.
    """
    # One read: almost always there is none.
    if await db.fetch_one(_HAS_EXPIRED, now=now_ms(), max_ms=_max_lease_ms(settings)) is None:
        return []
    return await db.transact(_rescue, settings, may_judge)


async def rescue_worker_jobs(tx: Transaction, worker_id: str, settings: Settings) -> list[str]:
    """The jobs of a worker that an operator removed, whether or not their leases expired."""
    rows = await tx.fetch_all(_OF_WORKER, worker_id=worker_id)
    return await _end_claims(tx, rows, settings, report_ms=None)


async def _rescue(tx: Transaction, settings: Settings, may_judge: Callable[[], bool]) -> list[str]:
    now = await tx.clock_ms()
    until = now + int(settings.lease_seconds * SECOND_MS)
    limit = now + _max_lease_ms(settings)
    rows = await tx.fetch_all(_EXPIRED, now=now, limit=limit, batch=_BATCH)
    expired = [row for row in rows if row["lease_expires_at"] < now]
    if len(expired) < len(rows):
        await tx.execute(_SHORTEN, until=until, limit=limit)
    # Only now: each statement before may have waited for the end of an outage.
    if not may_judge():
        expired = [row for row in expired if row["has_returned"]]
    report_ms = int(_REPORT_LEASES * settings.lease_seconds * SECOND_MS)
    return await _end_claims(tx, expired, settings, report_ms)


def _max_lease_ms(settings: Settings) -> int:
    return int(settings.lease_seconds * SECOND_MS) + _MAX_CLOCK_STEP_MS


async def _end_claims(
    tx: Transaction, rows: list[Row], settings: Settings, report_ms: int | None
) -> list[str]:
    """Within `report_ms` after their lease expired, no jobs fail."""
    now = await tx.clock_ms()
    ended = []
    for row in rows:
        may_fail = report_ms is None or row["lease_expires_at"] + report_ms <= now
        if await _complete(tx, row, now, settings.effective_public_url) or await _end_claim(
            tx, row, now, settings.lost_worker_retries, may_fail=may_fail
        ):
            ended.append(row["id"])
    return ended


async def _complete(tx: Transaction, row: Row, now: int, public_url: str) -> bool:
    """Complete a job that has opened its pull request."""
    # The pull request of a follow-up is older than the job; its next run recognizes its commit.
    if row["follows"] is not None or row["status"] != RUNNING:
        return False
    pull = await tx.fetch_one(
        "SELECT number, url, draft, head_commit FROM pulls WHERE repo_id = :repo_id"
        " AND head_branch = :branch AND state IN ('open', 'merged')",
        repo_id=row["repo_id"],
        branch=row["branch"],
    )
    if pull is None:
        return False
    path = pull_path(row["organization"], row["full_name"], pull["number"])
    columns = {
        "completed_at": now,
        "pr_url": pull["url"] or f"{public_url.rstrip('/')}{path}",
        "pr_number": pull["number"],
        "head_commit": pull["head_commit"],
    }
    change = Change(
        row["id"], COMPLETED, now, row["fence"], columns, review_requested=not pull["draft"]
    )
    is_cancelled = row["cancel_requested_at"] is not None
    reason = "the cancel came too late" if is_cancelled else "the worker was lost"
    await append_note(tx, row["id"], f"{reason}: pull request #{pull['number']} is already open")
    return await apply(tx, change)


async def _end_claim(tx: Transaction, row: Row, now: int, retries: int, *, may_fail: bool) -> bool:
    job_id, fence = row["id"], row["fence"]
    if row["cancel_requested_at"] is not None:
        return await apply(tx, to_cancelled(job_id, now, fence))
    claims = await count_lost_claims(tx, job_id, now)
    failure = describe_failure(claims, now, retries)
    if failure is not None and not may_fail:
        return False
    await record_lost_claim(tx, job_id, now)
    if failure is not None:
        return await apply(tx, to_failed(job_id, now, "worker_lost", failure, fence))
    if row["status"] == RUNNING:
        return await apply(tx, to_queued(job_id, now, fence))
    return await release_claim(tx, job_id, fence)
