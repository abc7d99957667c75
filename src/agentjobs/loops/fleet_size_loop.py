"""Counts the processes that share the database: with many, each one polls less often."""

from agentjobs.fleet.processes import fleet_size
from agentjobs.loops.loop import PeriodicLoop
from agentjobs.store.database import Database

_INTERVAL_SECONDS = 10.0


def fleet_size_loop(db: Database) -> PeriodicLoop:
    async def count() -> None:
        size = await fleet_size(db)
        db.changes.processes = max(size.processes, 1)
        db.changes.all_ask = not size.has_other_versions

    return PeriodicLoop("fleet size", _INTERVAL_SECONDS, count)
