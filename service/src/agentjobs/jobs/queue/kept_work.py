"""Finished work that could not be published yet: a commit as a thin bundle, until its job ends."""

from agentjobs.jobs.queue.transition import apply, release_claim, to_failed
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_large_transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.outcomes import KeptWork

MAX_BUNDLE_BYTES = 32 * 1024**2
MAX_AGE_MS = DAY_MS
_BATCH = 10


async def load_kept_work(db: Database, job_id: str) -> KeptWork | None:
    # As a scan, because it is too large for a point read on the event loop.
    rows = await db.fetch_all(
        "SELECT base_commit, head_commit, bundle FROM kept_work WHERE job_id = :job_id",
        job_id=job_id,
    )
    if not rows:
        return None
    row = rows[0]
    return KeptWork(row["base_commit"], row["head_commit"], bytes(row["bundle"]))


async def store_work(tx: Transaction, job_id: str, work: KeptWork) -> None:
    """The caller sets the job's `kept_at`."""
    await tx.execute(
        "INSERT INTO kept_work (job_id, base_commit, head_commit, bundle)"
        " VALUES (:job_id, :base_commit, :head_commit, :bundle) ON CONFLICT (job_id) DO UPDATE"
        " SET base_commit = excluded.base_commit, head_commit = excluded.head_commit,"
        " bundle = excluded.bundle",
        job_id=job_id,
        base_commit=work.base_commit,
        head_commit=work.head_commit,
        bundle=work.bundle,
    )


async def keep_work_of_lost_claim(tx: Transaction, job_id: str, work: KeptWork) -> bool:
    """Keeps the work of a worker that was cut off, unless the agent has been started again."""
    if not await hold_for_finished_work(tx, job_id):
        return False
    await store_work(tx, job_id, work)
    tx.announce("jobs")
    return True


async def hold_for_finished_work(tx: Transaction, job_id: str) -> bool:
    """Whether a job that returned to the queue still needs the work of its lost claim.

    The agent is then not started again, and a worker that is preparing the job loses its claim.
    """
    row = await tx.fetch_one(
        "SELECT q.fence FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.job_id = :job_id AND j.status = 'queued' AND j.kept_at IS NULL"
        " /*postgresql FOR UPDATE OF q, j */",
        job_id=job_id,
    )
    if row is None:
        return False
    await release_claim(tx, job_id, row["fence"])
    await tx.execute(
        "UPDATE jobs SET kept_at = :now WHERE id = :job_id",
        job_id=job_id,
        now=await tx.clock_ms(),
    )
    return True


def expiry_message(reason: str = "") -> str:
    detail = f" The last attempt failed: {reason}" if reason else ""
    return f"The work of this job could not be published within 24 hours.{detail}"


@in_large_transaction
async def fail_expired_work(tx: Transaction) -> int:
    """Fail the jobs whose work was kept for too long and that no worker is publishing now."""
    now = await tx.clock_ms()
    rows = await tx.fetch_all(
        "SELECT j.id FROM kept_work k JOIN jobs j ON j.id = k.job_id"
        " JOIN job_queue q ON q.job_id = j.id"
        " WHERE j.kept_at < :before AND q.lease_owner IS NULL"
        " LIMIT :batch /*postgresql FOR UPDATE OF q SKIP LOCKED */",
        before=now - MAX_AGE_MS,
        batch=_BATCH,
    )
    for row in rows:
        await apply(tx, to_failed(row["id"], now, "repo_unavailable", expiry_message()))
    return len(rows)
