"""Times as integer milliseconds since the epoch, in UTC."""

import time
from datetime import UTC, datetime
from functools import lru_cache

SECOND_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def elapsed_ms() -> int:
    """A monotonic clock that keeps counting while the machine is suspended."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1_000_000


def seconds_to_tick(every_seconds: float) -> float:
    """How long until the next multiple of `every_seconds`. Timers with the same interval then wake
    an idle process together."""
    remaining = every_seconds - time.monotonic() % every_seconds
    # A timer may fire a millisecond early.
    return remaining if remaining > every_seconds / 2 else remaining + every_seconds


def iso_utc(at_ms: int) -> str:
    """ISO 8601 with milliseconds and `Z`, the format of all timestamps in responses."""
    seconds, milliseconds = divmod(at_ms, 1_000)
    return f"{_iso_seconds(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1_024)
def _iso_seconds(at_seconds: int) -> str:
    return datetime.fromtimestamp(at_seconds, UTC).isoformat()[:19]


def iso_utc_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso_utc(at_ms)
