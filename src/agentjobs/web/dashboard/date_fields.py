"""Days as a date field sends them. They are UTC's, wherever the viewer is: pages say so."""

from datetime import UTC, date, datetime

from agentjobs.problems import Problem


def first_ms_of(text: str, label: str) -> int | None:
    """Its first millisecond; None for no day at all. Raises Problem for what is none."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Problem("bad_request", f"{label}: write a day like 2026-01-31.") from None
    at_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000
    # Identifiers know no time before the epoch.
    return max(at_ms, 0)
