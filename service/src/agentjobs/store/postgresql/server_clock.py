"""An estimate of the server's time between two readings of its clock."""

import time
from collections.abc import Callable, Coroutine
from typing import Any

from agentjobs.store.database import Row
from agentjobs.store.database_clock import POSTGRESQL_NOW

_MAX_AGE_MS = 5_000
_READ = f"SELECT {POSTGRESQL_NOW} AS at_ms"


class ServerClock:
    """The server's time, from a reading that is a few seconds old at most: a round trip less.

    It does not go back because a reply was slow: an earlier reading that can still be right stays.
    """

    def __init__(self) -> None:
        self._offset_ms: int | None = None
        self._read_at_ms = 0

    async def now_ms(self, fetch_one: Callable[[str], Coroutine[Any, Any, Row | None]]) -> int:
        """`fetch_one` asks the server, if the last reading is too old."""
        asked_at = _uptime_ms()
        offset = self._offset_ms
        if offset is None or asked_at - self._read_at_ms >= _MAX_AGE_MS:
            row = await fetch_one(_READ)
            assert row is not None
            self._read_at_ms = _uptime_ms()
            lowest, highest = row["at_ms"] - self._read_at_ms, row["at_ms"] - asked_at
            offset = self._offset_ms
            # Both clocks are cut to milliseconds.
            if offset is None or not lowest - 1 <= offset <= highest + 1:
                offset = self._offset_ms = lowest
        return _uptime_ms() + offset


def _uptime_ms() -> int:
    """Goes on while the machine is suspended, and no clock setting changes it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
