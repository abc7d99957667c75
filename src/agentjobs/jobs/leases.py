"""Leases: how a worker keeps its claims, and how the store knows it is alive."""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.store.database import Database, Transaction


class WorkerCard(msgspec.Struct, frozen=True):
    """A worker as the others see it."""

    id: str
    hostname: str
    slots: int
    agents: list[str]


class Renewal(msgspec.Struct, frozen=True):
    kept: frozenset[str]
    cancel_requested: frozenset[str]


async def register(db: Database, worker: WorkerCard) -> None:
    await db.transact(_register, worker)


async def sign_off(db: Database, worker_id: str) -> None:
    await db.transact(_sign_off, worker_id)


async def renew(
    db: Database, worker_id: str, jobs: list[ClaimedJob], lease_seconds: float
) -> Renewal:
    """Heartbeat and leases in one transaction; a job not in `kept` is no longer ours."""
    return await db.transact(_renew, worker_id, jobs, int(lease_seconds * 1_000))


async def cancel_requests(db: Database, worker_id: str) -> frozenset[str]:
    rows = await db.fetch_all(
        "SELECT id FROM jobs WHERE lease_owner = :worker_id AND cancel_requested_at IS NOT NULL",
        worker_id=worker_id,
    )
    return frozenset(row["id"] for row in rows)


async def _register(tx: Transaction, worker: WorkerCard) -> None:
    now = await tx.clock_ms()
    await tx.execute(
        "INSERT INTO workers (id, hostname, agents, slots, started_at, heartbeat_at)"
        " VALUES (:id, :hostname, :agents, :slots, :now, :now)",
        id=worker.id,
        hostname=worker.hostname,
        agents=msgspec.json.encode(worker.agents).decode(),
        slots=worker.slots,
        now=now,
    )


async def _sign_off(tx: Transaction, worker_id: str) -> None:
    await tx.execute("DELETE FROM workers WHERE id = :id", id=worker_id)


async def _renew(tx: Transaction, worker_id: str, jobs: list[ClaimedJob], lease_ms: int) -> Renewal:
    now = await tx.clock_ms()
    await tx.execute("UPDATE workers SET heartbeat_at = :now WHERE id = :id", id=worker_id, now=now)
    kept: set[str] = set()
    cancels: set[str] = set()
    for job in jobs:
        row = await tx.fetch_one(
            "UPDATE jobs SET lease_expires_at = :until WHERE id = :job_id AND fence = :fence"
            " AND lease_owner = :worker_id RETURNING cancel_requested_at",
            until=now + lease_ms,
            job_id=job.id,
            fence=job.fence,
            worker_id=worker_id,
        )
        if row is not None:
            kept.add(job.id)
            if row["cancel_requested_at"] is not None:
                cancels.add(job.id)
    return Renewal(frozenset(kept), frozenset(cancels))


async def forget_dead_workers(db: Database, older_than_ms: int) -> None:
    await db.transact(_forget_dead, now_ms() - older_than_ms)


async def _forget_dead(tx: Transaction, before: int) -> None:
    await tx.execute("DELETE FROM workers WHERE heartbeat_at < :before", before=before)
