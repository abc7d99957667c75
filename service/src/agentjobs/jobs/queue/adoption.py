"""Takes over the jobs of workers that are known to be dead, before their leases expire.

Only for a sandbox that outlives its worker: the agents of these jobs still run.
"""

from collections.abc import Sequence

from agentjobs.jobs.queue import claim_queries as queries
from agentjobs.jobs.queue.claim import claimed_job
from agentjobs.jobs.queue.lost_claims import record_adoption
from agentjobs.jobs.queue.transition import apply, release_claim, to_cancelled, to_queued
from agentjobs.jobs.states import RUNNING
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.protocol.claimed_job import ClaimedJob

# An expired lease is left to `rescue`: another worker may claim the job at any time.
_HELD = (
    "SELECT j.id, j.status, q.fence, j.attempt, j.cancel_requested_at"
    " FROM job_queue q JOIN jobs j ON j.id = q.job_id"
    " WHERE q.lease_owner IN (SELECT value FROM each(:workers)) AND q.lease_expires_at > :now"
    " ORDER BY q.job_id /*postgresql FOR UPDATE OF q, j */"
)


async def adopt_jobs(
    db: Database, worker_id: str, dead: Sequence[str], *, count: int, lease_seconds: float
) -> list[ClaimedJob]:
    """At most `count` jobs whose agents the dead workers had started, under new claims.

    Clients see no change of them. Their other jobs return to the queue, without spending an
    attempt.
    """
    if not dead:
        return []
    return await db.transact(_adopt, worker_id, dead, count, int(lease_seconds * SECOND_MS))


async def _adopt(
    tx: Transaction, worker_id: str, dead: Sequence[str], count: int, lease_ms: int
) -> list[ClaimedJob]:
    now = await tx.clock_ms()
    credentials: dict[str, str] = {}
    for row in await tx.fetch_all(_HELD, workers=dead, now=now):
        is_wanted = row["status"] == RUNNING and row["cancel_requested_at"] is None
        if not is_wanted or len(credentials) >= count:
            await _release(tx, row, now)
            continue
        if not await record_adoption(tx, row["id"], now):
            # `rescue` counts it as that of a lost worker.
            continue
        credentials[row["id"]] = credential = new_token(JOB_CREDENTIAL_PREFIX)
        await tx.execute(
            queries.CLAIM,
            job_id=row["id"],
            worker_id=worker_id,
            lease_expires_at=now + lease_ms,
            credential_hash=token_hash(credential),
        )
    await tx.execute(
        "DELETE FROM workers WHERE id IN (SELECT value FROM each(:workers))", workers=dead
    )
    rows = await tx.fetch_all(queries.DURING_OUTAGES.read, ids=[*credentials])
    jobs = [claimed_job(row, credentials[row["id"]], now) for row in rows]
    return sorted(jobs, key=lambda job: job.id)


async def _release(tx: Transaction, row: Row, now: int) -> None:
    job_id, fence = row["id"], row["fence"]
    if row["cancel_requested_at"] is not None:
        await apply(tx, to_cancelled(job_id, now, fence))
    elif row["status"] == RUNNING:
        await apply(tx, to_queued(job_id, now, fence, attempt=row["attempt"] - 1))
    else:
        await release_claim(tx, job_id, fence)
