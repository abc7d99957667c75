"""Cancels a job: a queued one at once, a running one through its worker.

Finished work that waits to be published is dropped at once.
"""

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.operations.audit import entry_for_person, write_entry
from agentjobs.jobs.queue.claim import PUBLISHER, lock_job
from agentjobs.jobs.queue.transition import apply, to_cancelled
from agentjobs.jobs.states import FINAL, QUEUED
from agentjobs.organizations.audit import Entry
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem


async def cancel_job(db: Database, organization_id: str, job_id: str) -> None:
    entry = entry_for_person("job.cancelled", job_id)
    # The kept work of a job, which is deleted with it, may have many megabytes.
    await db.transact_large(_cancel, organization_id, job_id, entry)


async def _cancel(tx: Transaction, organization_id: str, job_id: str, entry: Entry | None) -> None:
    await lock_job(tx, job_id)
    row = await tx.fetch_one(
        "SELECT j.status, j.cancel_requested_at, q.lease_owner, q.lease_expires_at FROM jobs j"
        " LEFT JOIN job_queue q ON q.job_id = j.id"
        " WHERE j.id = :job_id AND j.organization_id = :organization_id",
        job_id=job_id,
        organization_id=organization_id,
    )
    if row is None:
        raise job_not_found(job_id)
    if row["status"] in FINAL:
        raise Problem(
            "job_finished",
            f"The job is already {row['status']}; only a queued or running job can be cancelled.",
        )
    if row["cancel_requested_at"] is None:
        await write_entry(tx, organization_id, job_id, entry)
    now = await tx.clock_ms()
    is_waiting = row["lease_owner"] == PUBLISHER and (row["lease_expires_at"] or 0) < now
    if row["status"] == QUEUED or is_waiting:
        # A worker that prepares the job loses its claim, since the fence changes.
        await apply(tx, to_cancelled(job_id, now))
        return
    await tx.execute(
        "UPDATE jobs SET cancel_requested_at = COALESCE(cancel_requested_at, :now)"
        " WHERE id = :job_id",
        job_id=job_id,
        now=now,
    )
    tx.announce(f"job:{job_id}", "cancel")
