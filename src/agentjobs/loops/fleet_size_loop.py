"""Counts the processes that share the database: with many, each one polls less often."""

from agentjobs.fleet.processes import count_processes
from agentjobs.loops.loop import PeriodicLoop
from agentjobs.store.database import Database

_INTERVAL_SECONDS = 10.0


def fleet_size_loop(db: Database) -> PeriodicLoop:
    async def count() -> None:
        db.changes.processes = max(await count_processes(db), 1)

    return PeriodicLoop("fleet size", _INTERVAL_SECONDS, count)
