"""A moment as a person types it: ISO 8601, or how long ago it was."""

import re
from datetime import UTC, datetime, timedelta

from agentjobs.problems import Problem

_AGE = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIME_HELP = "ISO 8601 (UTC unless it says otherwise), or an age such as 90s, 15m, 2h, 7d."


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch, and never before it."""
    age = _AGE.fullmatch(text.strip())
    at = _iso_ms(text.strip()) if age is None else now_ms - int(age[1]) * _UNIT_MS[age[2]]
    return max(at, 0)


def _iso_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Problem("invalid_time", f"{text!r} is not a time. Use {TIME_HELP}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)
