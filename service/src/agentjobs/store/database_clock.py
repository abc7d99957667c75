"""The clock of the database, by which all processes judge what is due and what may be deleted.

On SQLite it is the machine's clock.
"""

import logging

from agentjobs.store.database import Database
from agentjobs_runtime.clock import SECOND_MS, iso_utc, now_ms

POSTGRESQL_NOW = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"
"""The time in milliseconds, not rounded up: a recorded time never lies in the future."""

DATABASE_NOW = f"/*postgresql {POSTGRESQL_NOW} */ /*sqlite :now */"
"""The database's time inside a statement, which has the machine's as its parameter `:now`."""

_MAX_DIFFERENCE_MS = 60_000

_log = logging.getLogger(__name__)


async def pruning_time_ms(db: Database) -> int | None:
    """The time by which data may be deleted, None while the two clocks differ by too much.

    One of them is wrong then, and what was deleted by a wrong clock cannot be restored.
    """
    now = await db.clock_ms()
    if problem := clock_problem(now):
        _log.warning("nothing is pruned: %s", problem)
        return None
    return now


def clock_ahead_seconds(database_now: int, other_now: int) -> int | None:
    """How far another clock is ahead of the database's, if that is too much."""
    ahead_ms = other_now - database_now
    return None if abs(ahead_ms) <= _MAX_DIFFERENCE_MS else ahead_ms // SECOND_MS


def clock_problem(database_now: int) -> str | None:
    """What is wrong with the clocks, if they differ by too much."""
    own_now = now_ms()
    if clock_ahead_seconds(database_now, own_now) is None:
        return None
    return (
        f"the clock of the database says {iso_utc(database_now)}, the clock of this machine"
        f" {iso_utc(own_now)}; set both by NTP"
    )
