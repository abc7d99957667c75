"""Jobs that wait for their environment: they are not claimed while a worker builds it.

Afterwards workers at the location of the snapshot may claim them first.
"""

from agentjobs.store.database import Database, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.records import OUTAGE_HOLD_MS
from agentjobs_runtime.protocol.outcomes import EnvironmentHold

_ALIVE_MS = 30_000

# An SQL condition with the parameter `now`: the environment of the job with the row `{job}` of
# job_queue is being built.
IS_BUILDING = (
    "EXISTS (SELECT 1 FROM environment_holds h WHERE h.key = {job}.environment_key"
    f" AND h.location IS NULL AND h.held_until > {DATABASE_NOW})"
)


def waits_for_environment(job: str) -> str:
    """An SQL condition with the parameters `now` and `location`."""
    return (
        f"EXISTS (SELECT 1 FROM environment_holds h WHERE h.key = {job}.environment_key"
        f" AND h.held_until > {DATABASE_NOW}"
        " AND (h.location IS NULL OR h.location <> :location))"
    )


async def store_hold(tx: Transaction, hold: EnvironmentHold) -> None:
    """Replaces an earlier hold of the same environment."""
    if hold.request_key is not None and not await _is_building(tx, hold):
        return
    await tx.execute(
        "INSERT INTO environment_holds (key, repo_id, location, held_until)"
        " VALUES (:key, :repo_id, :location, :held_until) ON CONFLICT (key) DO UPDATE SET"
        " location = excluded.location, held_until = excluded.held_until",
        key=hold.key,
        repo_id=hold.repo_id,
        location=hold.location,
        held_until=await tx.clock_ms() + hold.hold_ms,
    )
    if hold.location is not None:
        tx.announce("jobs")


hold_jobs = in_transaction(store_hold)


async def _is_building(tx: Transaction, hold: EnvironmentHold) -> bool:
    row = await tx.fetch_one(
        "SELECT 1 FROM environment_builds WHERE repo_id = :repo_id"
        " AND request_key = :request_key AND state = 'building' LIMIT 1",
        repo_id=hold.repo_id,
        request_key=hold.request_key,
    )
    return row is not None


async def was_held_for(db: Database, key: str, location: str) -> bool:
    """Whether the jobs were left to that location since the last cleanup."""
    row = await db.fetch_one(
        "SELECT 1 FROM environment_holds WHERE key = :key AND location = :location",
        key=key,
        location=location,
    )
    return row is not None


async def is_worker_alive(db: Database, location: str) -> bool:
    """Whether a worker there claims jobs."""
    row = await db.fetch_one(
        "SELECT 1 FROM workers WHERE location = :location AND drain_requested_at IS NULL"
        f" AND heartbeat_at > {DATABASE_NOW} - {_ALIVE_MS}",
        location=location,
        now=now_ms(),
    )
    return row is not None


async def is_environment_building(db: Database, job_id: str) -> bool:
    row = await db.fetch_one(
        f"SELECT 1 FROM job_queue q WHERE q.job_id = :job_id AND {IS_BUILDING.format(job='q')}",
        job_id=job_id,
        now=now_ms(),
    )
    return row is not None


@in_transaction
async def prune_holds(tx: Transaction) -> None:
    """Delete those that hold no job any more."""
    before = await tx.clock_ms() - OUTAGE_HOLD_MS
    await tx.execute("DELETE FROM environment_holds WHERE held_until < :before", before=before)
