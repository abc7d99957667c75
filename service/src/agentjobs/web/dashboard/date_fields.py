"""Parses date fields, in the viewer's time zone."""

from datetime import UTC, date, datetime, timedelta, tzinfo

from agentjobs_runtime.problems import Problem


def between_days(since: str, until: str, zone: tzinfo) -> tuple[int | None, int | None]:
    """From the first millisecond of one day up to the end of the other, that day included.

    None for no day at all. Raises Problem for what is none.
    """
    first, last = _day(since, "From"), _day(until, "To")
    return (
        None if first is None else _begin_ms(first, zone),
        # Days with a clock change do not have 24 hours.
        None if last is None else _begin_ms(last + timedelta(days=1), zone),
    )


def _day(text: str, label: str) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Problem("bad_request", f"{label}: enter a date such as 2026-01-31.") from None
    # Keeps the next day representable in every time zone.
    return min(max(day, date(1970, 1, 1)), date(9999, 12, 30))


def _begin_ms(day: date, zone: tzinfo) -> int:
    begin = datetime(day.year, day.month, day.day, tzinfo=zone)
    at_ms = int((begin - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000
    # Identifiers cannot hold times before the epoch.
    return max(at_ms, 0)
