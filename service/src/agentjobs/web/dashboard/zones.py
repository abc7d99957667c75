"""The viewer's time zone, which the script stores in a cookie; UTC by default."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from agentjobs_runtime.clock import HOUR_MS

_is_zone_name = re.compile(r"[A-Za-z0-9_+/-]{1,64}").fullmatch


def zone_named(name: str) -> tzinfo:
    """UTC for unknown time zones."""
    if not _is_zone_name(name) or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    # OSError is raised for directories, such as America.
    except (KeyError, ValueError, OSError):
        return UTC


def shown_zone(zone: tzinfo) -> Mapping[str, Any]:
    """Template values; `zone_short` is an abbreviation such as CET."""
    return {
        "zone": zone,
        "zone_name": str(zone).replace("_", " "),
        "zone_short": datetime.now(zone).tzname() or "UTC",
    }


def local_time(at_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, zone)


def period_label(starts_at: int, ends_at: int, zone: tzinfo) -> str:
    """The start of an hour, or the day of a longer period."""
    if ends_at - starts_at <= HOUR_MS:
        return local_time(starts_at, zone).strftime("%H:%M")
    # The middle, because after a clock change periods start an hour off midnight.
    return local_time((starts_at + ends_at) // 2, zone).strftime("%b %d")


def whole_hours_ahead(at_ms: int, zone: tzinfo) -> int:
    """The UTC offset in hours, rounded down."""
    offset = local_time(at_ms, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 3_600)
