"""Requeues jobs whose lease expired; after too many lost workers they fail with `worker_lost`."""

from agentjobs.jobs.queue.transition import apply, release_claim, to_cancelled, to_failed, to_queued
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Database, Row, Transaction

_BATCH = 100


async def rescue_lost_jobs(db: Database, retries: int) -> list[str]:
    """Return the identifiers of the jobs whose lease had expired."""
    return await db.transact(_rescue, retries)


async def _rescue(tx: Transaction, retries: int) -> list[str]:
    now = await tx.clock_ms()
    rows = await tx.fetch_all(
        "SELECT id, status, fence, lost_workers, cancel_requested_at FROM jobs"
        " WHERE lease_owner IS NOT NULL AND lease_expires_at < :now"
        " LIMIT :batch /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
        batch=_BATCH,
    )
    for row in rows:
        await _rescue_job(tx, row, now, retries)
    return [row["id"] for row in rows]


async def _rescue_job(tx: Transaction, row: Row, now: int, retries: int) -> None:
    job_id, fence = row["id"], row["fence"]
    lost = row["lost_workers"] + 1
    if row["cancel_requested_at"] is not None:
        await apply(tx, to_cancelled(job_id, now, fence))
    elif lost > retries:
        message = f"This job lost its worker {lost} times; it is not retried."
        await apply(tx, to_failed(job_id, now, "worker_lost", message, fence))
    elif row["status"] == RUNNING:
        await apply(tx, to_queued(job_id, now, fence, lost_workers=lost))
    else:
        await release_claim(tx, job_id, fence, lost_workers=1)
