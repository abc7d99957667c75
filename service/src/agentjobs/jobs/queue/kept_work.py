"""Finished work until it is published: a commit as a thin bundle.

Its job runs on, without a worker: the processes of the service claim it, one at a time.
"""

from agentjobs.jobs.queue import claim_queries as queries
from agentjobs.jobs.queue.claim import PUBLISHER, claimed_job
from agentjobs.jobs.queue.platform_outages import postpone_others
from agentjobs.jobs.queue.transition import Change, apply, to_failed
from agentjobs.jobs.states import RUNNING
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_large_transaction, in_transaction
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import KeptWork

MAX_AGE_MS = DAY_MS
TOPIC = "publish"
_BATCH = 10
_HAS_WORK = f"SELECT 1 AS found FROM job_queue q WHERE {queries.FREE_TO_PUBLISH} LIMIT 1"


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


async def keep_work(
    tx: Transaction, job_id: str, work: KeptWork, phases: str | None = None
) -> None:
    """For a running job whose row is locked: its claim ends, and the service publishes the work."""
    await tx.execute(
        "INSERT INTO kept_work (job_id, base_commit, head_commit, bundle)"
        " VALUES (:job_id, :base_commit, :head_commit, :bundle)",
        job_id=job_id,
        base_commit=work.base_commit,
        head_commit=work.head_commit,
        bundle=work.bundle,
    )
    await tx.execute(
        f"UPDATE job_queue SET lease_owner = '{PUBLISHER}', lease_expires_at = NULL,"
        " credential_hash = NULL, fence = fence + 1 WHERE job_id = :job_id",
        job_id=job_id,
    )
    await tx.execute(
        "UPDATE jobs SET kept_at = :now, phases = COALESCE(CAST(:phases AS TEXT), phases)"
        " WHERE id = :job_id",
        job_id=job_id,
        now=await tx.clock_ms(),
        phases=phases,
    )
    # Another job can have its slot, and its place in the plan.
    tx.announce(TOPIC, "jobs", f"job:{job_id}")


async def keep_work_of_lost_claim(tx: Transaction, job_id: str, work: KeptWork) -> bool:
    """Keeps the work of a worker that was cut off, unless the agent has been started again."""
    if not await run_for_finished_work(tx, job_id):
        return False
    await keep_work(tx, job_id, work)
    return True


async def run_for_finished_work(tx: Transaction, job_id: str) -> bool:
    """Whether a job that returned to the queue still needs the work of its lost claim.

    It runs then, so that the agent is not started again: a worker that is preparing the job loses
    its claim.
    """
    row = await tx.fetch_one(
        "SELECT q.fence FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.job_id = :job_id AND j.status = 'queued' /*postgresql FOR UPDATE OF q, j */",
        job_id=job_id,
    )
    return row is not None and await apply(tx, Change(job_id, RUNNING, await tx.clock_ms()))


async def claim_kept_work(db: Database, count: int, lease_ms: int) -> list[ClaimedJob]:
    """At most `count` jobs whose work this process publishes now."""
    # One read: almost always there is none.
    if await db.fetch_one(_HAS_WORK, now=now_ms()) is None:
        return []
    return await db.transact(_claim, count, lease_ms)


async def _claim(tx: Transaction, count: int, lease_ms: int) -> list[ClaimedJob]:
    credentials: dict[str, str] = {}
    for row in await tx.fetch_all(queries.TO_PUBLISH, now=now_ms(), count=count):
        credentials[row["job_id"]] = credential = new_token(JOB_CREDENTIAL_PREFIX)
        await tx.execute(
            queries.CLAIM,
            job_id=row["job_id"],
            worker_id=PUBLISHER,
            lease_expires_at=await tx.clock_ms() + lease_ms,
            credential_hash=token_hash(credential),
        )
    if not credentials:
        return []
    now = await tx.clock_ms()
    rows = await tx.fetch_all(queries.DURING_OUTAGES.read, ids=[*credentials])
    jobs = [claimed_job(row, credentials[row["id"]], now) for row in rows]
    if keys := {key for job in jobs if job.has_outage for key in job.outage_keys}:
        await postpone_others(tx, keys)
    return jobs


@in_transaction
async def renew_publishing(tx: Transaction, job: ClaimedJob, lease_ms: int) -> bool:
    """False if another process has the job, or it has ended."""
    return await _set_lease(tx, job, await tx.clock_ms() + lease_ms)


async def publish_later(tx: Transaction, job: ClaimedJob, delay_ms: int) -> bool:
    """Any process may publish the work after the delay, once its platform is not away."""
    until = await tx.clock_ms() + delay_ms if delay_ms else None
    tx.announce(TOPIC)
    return await _set_lease(tx, job, until)


async def _set_lease(tx: Transaction, job: ClaimedJob, until: int | None) -> bool:
    changed = await tx.execute(
        "UPDATE job_queue SET lease_expires_at = CAST(:until AS BIGINT)"
        f" WHERE job_id = :job_id AND fence = :fence AND lease_owner = '{PUBLISHER}'",
        job_id=job.id,
        fence=job.fence,
        until=until,
    )
    return changed > 0


def expiry_message(reason: str = "") -> str:
    detail = f" The last attempt failed: {reason}" if reason else ""
    return f"The work of this job could not be published within 24 hours.{detail}"


@in_large_transaction
async def fail_expired_work(tx: Transaction) -> int:
    """Fail the jobs whose work was kept for too long and that no process is publishing now."""
    now = await tx.clock_ms()
    rows = await tx.fetch_all(
        "SELECT j.id FROM kept_work k JOIN jobs j ON j.id = k.job_id"
        " JOIN job_queue q ON q.job_id = j.id"
        f" WHERE j.kept_at < :before AND {queries.FREE_TO_PUBLISH}"
        " LIMIT :batch /*postgresql FOR UPDATE OF q SKIP LOCKED */",
        before=now - MAX_AGE_MS,
        now=now,
        batch=_BATCH,
    )
    for row in rows:
        await apply(tx, to_failed(row["id"], now, "repo_unavailable", expiry_message()))
    return len(rows)
