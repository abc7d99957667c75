"""Counts the processes that share the database: with many, each one polls less often."""

from agentjobs.fleet.processes import fleet_size
from agentjobs.store.database import Database
from agentjobs_runtime.loop import PeriodicLoop

_INTERVAL_SECONDS = 10.0


def fleet_size_loop(db: Database, worker_id: str | None = None) -> PeriodicLoop:
    """`worker_id` is the worker of this process."""

    async def count() -> None:
        size = await fleet_size(db, worker_id or "")
        db.changes.processes = max(size.processes, 1)
        db.changes.workers = max(size.workers, 1)
        db.changes.position = None if worker_id is None else size.workers_before

    return PeriodicLoop("fleet size", _INTERVAL_SECONDS, count)
