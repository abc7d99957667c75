"""What operators see of workers, and how they drain and remove them."""

from typing import Literal

import msgspec

from agentjobs.fleet.processes import (
    odd_configurations,
    running_configurations,
    worker_silent_ms,
)
from agentjobs.jobs.operations.rescue import rescue_worker_jobs
from agentjobs.jobs.queue.leases import decode_unready
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import write_service_entry
from agentjobs.organizations.pauses import wait_for_claims
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.digest import short_digest

WorkerStatus = Literal["ready", "unready", "draining", "drained", "silent"]
STATUSES: tuple[WorkerStatus, ...] = ("ready", "unready", "draining", "drained", "silent")

_SELECT = (
    "SELECT w.*, (SELECT COUNT(*) FROM job_queue q WHERE q.lease_owner = w.id) AS running_jobs"
    " FROM workers w"
)


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """`has_odd_configuration`: its version or configuration differs from that of most processes."""

    id: str
    hostname: str
    status: WorkerStatus
    version: str
    configuration_digest: str
    has_odd_configuration: bool
    tags: list[str]
    slots: int
    running_jobs: int
    agents: list[str]
    unready: dict[str, str]
    # Why it cannot start a sandbox now; empty if it can.
    sandbox_problem: str
    # How far its clock is ahead of the database's, if that is too much.
    clock_ahead_seconds: int | None
    started_at: int
    heartbeat_at: int
    heartbeat_age_ms: int
    disk_free_bytes: int | None
    disk_total_bytes: int | None


async def list_worker_views(db: Database, settings: Settings) -> list[WorkerView]:
    odd = {
        configuration.id for configuration in odd_configurations(await running_configurations(db))
    }
    rows = await db.fetch_all(f"{_SELECT} ORDER BY w.hostname, w.id")
    now = await db.clock_ms()
    return [_view(row, now, settings, odd) for row in rows]


async def find_worker(db: Database, settings: Settings, name: str) -> WorkerView:
    """Finds a worker by its identifier, or by the name of a host that has only one."""
    workers = await list_worker_views(db, settings)
    matches = [worker for worker in workers if name in (worker.id, worker.hostname)]
    if len(matches) > 1:
        ids = ", ".join(worker.id for worker in matches)
        raise Problem("ambiguous_worker", f"{name} has several workers; choose one of: {ids}.")
    if not matches:
        raise Problem(
            "worker_not_found",
            f"There is no worker {name!r}; `agentjobs workers list` shows all workers.",
        )
    return matches[0]


async def drain_worker(db: Database, settings: Settings, name: str) -> WorkerView:
    """The worker claims no more jobs, and stays alive until it is stopped or resumed."""
    worker = await find_worker(db, settings, name)
    await _set_drain(db, worker, is_requested=True)
    return await find_worker(db, settings, worker.id)


async def resume_worker(db: Database, settings: Settings, name: str) -> WorkerView:
    worker = await find_worker(db, settings, name)
    await _set_drain(db, worker, is_requested=False)
    return await find_worker(db, settings, worker.id)


async def remove_worker(db: Database, settings: Settings, name: str) -> tuple[WorkerView, int]:
    """Forget a worker that is gone and requeue its jobs now; returns their number."""
    worker = await find_worker(db, settings, name)
    if worker.status != "silent":
        raise Problem(
            "worker_alive",
            f"The worker {worker.id} is alive; stop its process (SIGTERM drains it), and it removes"
            " itself.",
        )
    return worker, len(await _remove(db, worker, settings))


@audit.in_transaction
async def _set_drain(tx: Transaction, worker: WorkerView, *, is_requested: bool) -> None:
    requested_at = await tx.clock_ms() if is_requested else None
    changed = await tx.execute(
        "UPDATE workers SET drain_requested_at = CAST(:at AS BIGINT) WHERE id = :id"
        " AND (drain_requested_at IS NULL) <> (CAST(:at AS BIGINT) IS NULL)",
        id=worker.id,
        at=requested_at,
    )
    if is_requested:
        await wait_for_claims(tx)
    if changed:
        action = "worker.drained" if is_requested else "worker.resumed"
        entry = audit.entry(action, worker.hostname, worker=worker.id)
        await write_service_entry(tx, entry)
        # A worker that is resumed looks for jobs.
        tx.announce("jobs")


@audit.in_transaction
async def _remove(tx: Transaction, worker: WorkerView, settings: Settings) -> list[str]:
    removed = await tx.execute(
        "DELETE FROM workers WHERE id = :id AND heartbeat_at < :before",
        id=worker.id,
        before=await tx.clock_ms() - worker_silent_ms(settings),
    )
    if not removed:
        raise Problem("worker_alive", f"The worker {worker.id} has just sent a heartbeat.")
    entry = audit.entry("worker.removed", worker.hostname, worker=worker.id)
    await write_service_entry(tx, entry)
    return await rescue_worker_jobs(tx, worker.id, settings)


def _view(row: Row, now: int, settings: Settings, odd: set[str]) -> WorkerView:
    unreadiness = decode_unready(row["unready"])
    return to_struct(
        row,
        WorkerView,
        status=worker_status(row, now, settings, unreadiness.sandbox_problem),
        configuration_digest=short_digest(row["configuration_digest"]),
        has_odd_configuration=row["id"] in odd,
        tags=msgspec.json.decode(row["tags"], type=list[str]),
        agents=msgspec.json.decode(row["agents"], type=list[str]),
        unready=unreadiness.agents,
        sandbox_problem=unreadiness.sandbox_problem,
        clock_ahead_seconds=unreadiness.clock_ahead_seconds,
        heartbeat_age_ms=max(now - row["heartbeat_at"], 0),
    )


def worker_status(row: Row, now: int, settings: Settings, problem: str = "") -> WorkerStatus:
    """`problem` is that of its sandbox."""
    if row["heartbeat_at"] <= now - worker_silent_ms(settings):
        return "silent"
    if row["drain_requested_at"] is None:
        return "unready" if problem else "ready"
    return "draining" if row["running_jobs"] else "drained"
