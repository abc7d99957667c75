"""The leases of jobs, and the heartbeats of the workers that hold them."""

from collections.abc import Collection

import msgspec

from agentjobs.jobs.queue.fleet import DISK_FULL
from agentjobs.jobs.queue.lost_claims import mark_alive
from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Database, Transaction
from agentjobs.store.database_clock import clock_ahead_seconds
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.claimed_job import Claim
from agentjobs_runtime.protocol.messages import Renewal
from agentjobs_runtime.protocol.worker_info import WorkerInfo

# Keys among the reasons of agents that no agent has as its ID: a wrong clock, and a reason that
# concerns all agents.
_CLOCK = ""
_ALL_AGENTS = "*"
_RENEWED = (
    "RETURNING job_id, fence,"
    " (SELECT cancel_requested_at FROM jobs WHERE jobs.id = job_id) AS cancel_requested_at"
)
# Locks are taken in the order of the rows.
_RENEW = BatchStatement(
    {"id": "text", "held_fence": "bigint", "worker_id": "text", "until": "bigint"},
    one="UPDATE job_queue SET lease_expires_at = :until WHERE job_id = :id"
    f" AND fence = :held_fence AND lease_owner = :worker_id {_RENEWED}",
    many="UPDATE job_queue SET lease_expires_at = v.until FROM {rows} WHERE job_id = v.id"
    f" AND fence = v.held_fence AND lease_owner = v.worker_id {_RENEWED}",
)


class Unreadiness(msgspec.Struct, frozen=True):
    """The reasons by agent, how far the worker's clock is ahead, if that is too much, and why no
    sandbox can start."""

    agents: dict[str, str]
    clock_ahead_seconds: int | None
    sandbox_problem: str


@in_transaction
async def renew(
    tx: Transaction,
    worker: WorkerInfo,
    claims: Collection[Claim],
    lease_seconds: float,
    *,
    sent_at: int | None = None,
    was_cut_off: bool = False,
) -> Renewal:
    """Heartbeat and leases in one transaction. A claim not in `renewed` is lost.

    `was_cut_off`: claims that the worker lost do not count as those of a lost worker. `sent_at` is
    the time by the worker's clock, by default that of this machine.
    """
    now = await tx.clock_ms()
    worker.clock_ahead_seconds = clock_ahead_seconds(now, sent_at or now_ms())
    await _heartbeat(tx, worker, now)
    if was_cut_off:
        await mark_alive(tx, worker.id)
    until = now + int((lease_seconds + worker.extra_lease_seconds) * 1_000)
    rows = await _RENEW.fetch(
        tx,
        [
            {"id": job_id, "held_fence": fence, "worker_id": worker.id, "until": until}
            for job_id, fence in sorted(claims)
        ],
    )
    return Renewal(
        frozenset((row["job_id"], row["fence"]) for row in rows),
        frozenset(
            (row["job_id"], row["fence"]) for row in rows if row["cancel_requested_at"] is not None
        ),
    )


@in_transaction
async def begin_drain(tx: Transaction, worker_id: str) -> None:
    """The process ends when its jobs have: its slots no longer count."""
    await tx.execute(
        "UPDATE workers SET drain_requested_at = :now"
        " WHERE id = :id AND drain_requested_at IS NULL",
        id=worker_id,
        now=await tx.clock_ms(),
    )


@in_transaction
async def sign_off(tx: Transaction, worker_id: str) -> None:
    await tx.execute("DELETE FROM workers WHERE id = :id", id=worker_id)


async def cancel_requests(db: Database, worker_id: str) -> frozenset[Claim]:
    rows = await db.fetch_all(
        "SELECT j.id, q.fence FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.lease_owner = :worker_id AND j.cancel_requested_at IS NOT NULL",
        worker_id=worker_id,
    )
    return frozenset((row["id"], row["fence"]) for row in rows)


@in_transaction
async def delete_silent_workers(tx: Transaction, silent_ms: int) -> None:
    before = await tx.clock_ms() - silent_ms
    await tx.execute("DELETE FROM workers WHERE heartbeat_at < :before", before=before)


async def _heartbeat(tx: Transaction, worker: WorkerInfo, now: int) -> None:
    # All columns each time, since a worker that missed heartbeats may have been deleted.
    await tx.execute(
        "INSERT INTO workers (id, hostname, agents, unready, slots, started_at, heartbeat_at,"
        " version, configuration_digest, tags, location, disk_free_bytes, disk_total_bytes)"
        " VALUES (:id, :hostname, :agents, :unready, :slots, :now, :now,"
        " :version, :configuration_digest, :tags, :location, :disk_free_bytes, :disk_total_bytes)"
        " ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at,"
        " agents = excluded.agents, unready = excluded.unready,"
        " disk_free_bytes = excluded.disk_free_bytes,"
        " disk_total_bytes = excluded.disk_total_bytes",
        id=worker.id,
        hostname=worker.hostname,
        agents=msgspec.json.encode(_ready_agents(worker)).decode(),
        unready=msgspec.json.encode(_unready(worker)).decode(),
        slots=worker.slots,
        version=worker.version,
        configuration_digest=worker.configuration_digest,
        tags=msgspec.json.encode(worker.tags).decode(),
        location=worker.location,
        disk_free_bytes=worker.disk_space and worker.disk_space.free_bytes,
        disk_total_bytes=worker.disk_space and worker.disk_space.total_bytes,
        now=now,
    )


def _ready_agents(worker: WorkerInfo) -> list[str]:
    return [] if worker.is_disk_full or worker.sandbox_problem else worker.agents


def _unready(worker: WorkerInfo) -> dict[str, str]:
    unready = worker.unready
    if problem := worker.sandbox_problem:
        unready = {_ALL_AGENTS: problem} | dict.fromkeys(worker.agents, problem) | unready
    if worker.is_disk_full:
        unready = dict.fromkeys(worker.agents, DISK_FULL) | unready
    if worker.clock_ahead_seconds is not None:
        unready = {_CLOCK: str(worker.clock_ahead_seconds), **unready}
    return unready


def decode_unready(column: str) -> Unreadiness:
    agents = msgspec.json.decode(column, type=dict[str, str])
    clock = agents.pop(_CLOCK, None)
    problem = agents.pop(_ALL_AGENTS, "")
    return Unreadiness(agents, None if clock is None else int(clock), problem)


def release_statement() -> str:
    """Ends the leases of jobs that a worker had claimed when a backup was made.

    A worker that was alive after that was only cut off, so that the rescue does not count it as
    lost.
    """
    return "UPDATE job_queue SET lease_expires_at = 0 WHERE lease_owner IS NOT NULL"
