"""Removes what an earlier attempt left, so that it is not taken for the work of the next one."""

from agentjobs.jobs.queue.claim import lock_claim
from agentjobs.store.database import Transaction
from agentjobs.store.in_transaction import in_large_transaction
from agentjobs.store.leases import ClaimLost
from agentjobs_runtime.protocol.claimed_job import ClaimedJob


@in_large_transaction
async def remove_results(tx: Transaction, job: ClaimedJob) -> None:
    """Raises ClaimLost."""
    for table in ("job_artifacts", "job_diffs", "job_steps"):
        await tx.execute(f"DELETE FROM {table} WHERE job_id = :job_id", job_id=job.id)
    if not await lock_claim(tx, job):
        raise ClaimLost
