"""Parses times typed by a user: ISO 8601, an age such as 2h, or a duration from now."""

import re
from datetime import UTC, datetime, timedelta

from agentjobs_runtime.problems import Problem

_AGE = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIME_HELP = "ISO 8601 (UTC by default) or an age such as 90s, 15m, 2h, 7d."

EXPIRY_HELP = "a duration such as 12h or 30d, a date such as 2027-01-31 (UTC), or never."


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch; 0 for earlier times."""
    age = _AGE.fullmatch(text.strip())
    at = _parse_iso_ms(text.strip()) if age is None else now_ms - int(age[1]) * _UNIT_MS[age[2]]
    return max(at, 0)


def parse_optional_time(text: str | None) -> datetime | None:
    """An age counts from the clock of this machine."""
    if text is None:
        return None
    now_ms = (datetime.now(UTC) - _EPOCH) // timedelta(milliseconds=1)
    return _EPOCH + timedelta(milliseconds=parse_time_ms(text, now_ms))


def parse_expiry_ms(text: str, now_ms: int) -> int | None:
    """None for `never`."""
    text = text.strip()
    if text.lower() == "never":
        return None
    duration = _AGE.fullmatch(text)
    if duration is not None:
        return now_ms + int(duration[1]) * _UNIT_MS[duration[2]]
    try:
        return _parse_iso_ms(text)
    except Problem:
        raise Problem("invalid_expiry", f"{text!r} is not valid. Use {EXPIRY_HELP}") from None


def _parse_iso_ms(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Problem("invalid_time", f"{text!r} is not a time. Use {TIME_HELP}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)
