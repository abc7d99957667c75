"""Runs that end without a result: the job returns to the queue, with its work if that is done."""

from agentjobs.clock import now_ms
from agentjobs.jobs.outcomes import Kept, Outcome, Released, Unreachable
from agentjobs.jobs.queue import kept_work
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.platform_outages import MAX_OUTAGE_MS, Outage, record_outage
from agentjobs.jobs.queue.transition import Change, to_failed, to_queued
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Row, Transaction


async def requeue(
    tx: Transaction, job: ClaimedJob, row: Row, outcome: Released | Unreachable | Kept
) -> Change | None:
    """How the job continues; None if it stays queued, because its agent never started.

    `row` has its status and attempt, and is locked.
    """
    match outcome:
        case Kept():
            return await _keep(tx, job, row, outcome)
        case Unreachable():
            return await _postpone(tx, job, row, outcome.outage)
        case Released():
            return _release(job, row)


async def keep_after_lost_claim(tx: Transaction, job: ClaimedJob, outcome: Outcome) -> bool:
    """For a worker that was cut off while it published; False if the job went on without it."""
    if not isinstance(outcome, Kept):
        return False
    return await kept_work.keep_work_of_lost_claim(tx, job.id, outcome.work)


def _release(job: ClaimedJob, row: Row) -> Change | None:
    """Without spending an attempt."""
    if row["status"] != RUNNING:
        return None
    return to_queued(job.id, now_ms(), job.fence, attempt=row["attempt"] - 1)


async def _postpone(tx: Transaction, job: ClaimedJob, row: Row, outage: Outage) -> Change | None:
    """Wait until the platform responds; after a day, fail."""
    since = await record_outage(tx, outage)
    now = await tx.clock_ms()
    if job.kept_at is not None and now - job.kept_at >= kept_work.MAX_AGE_MS:
        message = kept_work.expiry_message(outage.message)
    elif job.kept_at is None and now - max(since, job.created_at) >= MAX_OUTAGE_MS:
        message = f"The platform has been unreachable for 24 hours: {outage.message}"
    else:
        return _release(job, row)
    return to_failed(job.id, now, "repo_unavailable", message, job.fence)


async def _keep(tx: Transaction, job: ClaimedJob, row: Row, outcome: Kept) -> Change | None:
    if outcome.outage is not None:
        await record_outage(tx, outcome.outage)
    if row["status"] != RUNNING:
        # The work of an earlier attempt, which is already kept.
        return None
    await kept_work.store_work(tx, job.id, outcome.work)
    # The agent ran, so the attempt counts as it is.
    return to_queued(job.id, now_ms(), job.fence, kept_at=await tx.clock_ms())
