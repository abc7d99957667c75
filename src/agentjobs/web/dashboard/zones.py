"""The viewer's time zone: the script names it in a cookie; without one it is UTC."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

_is_zone_name = re.compile(r"[A-Za-z0-9_+/-]{1,64}").fullmatch


def zone_named(name: str) -> tzinfo:
    """UTC for a zone that this machine does not know."""
    if not _is_zone_name(name) or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    # The last one is for names of directories, such as America.
    except (KeyError, ValueError, OSError):
        return UTC


def name_of(zone: tzinfo) -> str:
    """As in Europe/Berlin."""
    return str(zone)


def shown_zone(zone: tzinfo) -> Mapping[str, Any]:
    """For templates; `short` as in CET, for labels that have little room."""
    return {
        "zone": zone,
        "zone_name": name_of(zone).replace("_", " "),
        "zone_short": datetime.now(zone).tzname() or "UTC",
    }


def local_time(at_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, zone)


def whole_hours_ahead(at_ms: int, zone: tzinfo) -> int:
    """Of UTC, rounded down: a day that begins so many hours earlier begins on this date here."""
    offset = local_time(at_ms, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 3_600)
