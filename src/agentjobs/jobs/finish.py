"""Storing how a run ended: the row, its events and nothing else, fenced by the claim."""

from typing import assert_never

from agentjobs.clock import now_ms
from agentjobs.jobs.cancel import cancelled
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.outcomes import Abandoned, Cancelled, Completed, Failed, Outcome, Released
from agentjobs.jobs.states import COMPLETED, FAILED, QUEUED, RUNNING
from agentjobs.jobs.transition import Change, apply
from agentjobs.store.database import Database, Transaction

_MOST_MESSAGE_LENGTH = 8_000


async def finish_job(db: Database, job: ClaimedJob, outcome: Outcome) -> bool:
    """False when the claim was lost meanwhile and nothing was written."""
    match outcome:
        case Completed():
            return await db.transact(_complete, job, outcome)
        case Failed(code, message):
            return await db.transact(_fail, job, code, message)
        case Cancelled():
            return await db.transact(_cancel, job)
        case Released():
            return await db.transact(_release, job)
        case Abandoned():
            return False
    assert_never(outcome)


async def _complete(tx: Transaction, job: ClaimedJob, done: Completed) -> bool:
    now = now_ms()
    columns = {
        "completed_at": now,
        "pr_url": done.pr_url,
        "pr_number": done.pr_number,
        "head_commit": done.head_commit,
    }
    change = Change(job.id, COMPLETED, now, job.fence, columns, review_requested=not done.draft)
    return await apply(tx, change)


async def _fail(tx: Transaction, job: ClaimedJob, code: str, message: str) -> bool:
    return await apply(tx, failed(job.id, now_ms(), code, message, job.fence))


async def _cancel(tx: Transaction, job: ClaimedJob) -> bool:
    return await apply(tx, cancelled(job.id, now_ms(), job.fence))


async def _release(tx: Transaction, job: ClaimedJob) -> bool:
    row = await tx.fetch_one(
        "SELECT status, attempt FROM jobs"
        " WHERE id = :job_id AND fence = :fence AND lease_owner IS NOT NULL",
        job_id=job.id,
        fence=job.fence,
    )
    if row is None:
        return False
    if row["status"] == RUNNING:
        return await apply(tx, requeued(job.id, now_ms(), job.fence, attempt=row["attempt"] - 1))
    return await unclaim(tx, job.id, job.fence)


def failed(job_id: str, now: int, code: str, message: str, fence: int | None = None) -> Change:
    columns = {
        "completed_at": now,
        "error_code": code,
        "error_message": message[:_MOST_MESSAGE_LENGTH],
    }
    return Change(job_id, FAILED, now, fence, columns)


def requeued(job_id: str, now: int, fence: int | None, **columns: int) -> Change:
    return Change(job_id, QUEUED, now, fence, {"queued_at": now, **columns})


async def unclaim(tx: Transaction, job_id: str, fence: int, lost_workers: int = 0) -> bool:
    """Give back a job whose agent never began: to the outside nothing has changed."""
    changed = await tx.execute(
        "UPDATE jobs SET lease_owner = NULL, lease_expires_at = NULL, credential_hash = NULL,"
        " fence = fence + 1, lost_workers = lost_workers + :lost_workers"
        " WHERE id = :job_id AND fence = :fence AND status = 'queued'",
        job_id=job_id,
        fence=fence,
        lost_workers=lost_workers,
    )
    tx.announce("jobs")
    return changed > 0
