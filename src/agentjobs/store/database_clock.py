"""The clock of the database, by which all processes judge what is due and what may be deleted.

On SQLite it is the machine's clock.
"""

import logging

from agentjobs.clock import iso_utc, now_ms
from agentjobs.store.database import Database

POSTGRESQL_NOW = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"
"""In milliseconds, cut and not rounded: a time that a row records never lies in the future."""

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


def clock_problem(database_now: int) -> str | None:
    """What is wrong with the clocks, if they differ by too much."""
    own_now = now_ms()
    if abs(database_now - own_now) <= _MAX_DIFFERENCE_MS:
        return None
    return (
        f"the clock of the database says {iso_utc(database_now)}, the clock of this machine"
        f" {iso_utc(own_now)}; set both by NTP"
    )
