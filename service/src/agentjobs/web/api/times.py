"""Times in query parameters: RFC 3339, or a date, which is its first moment in UTC."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from agentjobs_runtime.json_fields import Rule, text
from agentjobs_runtime.problems import Fault

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# An offset can lead into the year 10000, which no response can show.
_LAST = datetime.max.replace(tzinfo=UTC)
_MESSAGE = "must be a time such as 2026-01-31T09:30:00Z, or a date such as 2026-01-31"
_PATTERN = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    # Clients forget to encode a plus sign, which is decoded as a space.
    "([Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?([Zz]|[+ -][0-9]{2}:[0-9]{2}))?$"
)
_is_time = re.compile(_PATTERN).fullmatch

TimeText = Annotated[str, text(max_length=40, matching=Rule(_PATTERN, _MESSAGE))]


def parse_time(value: str) -> int | None:
    """Milliseconds since the epoch, 0 for earlier times, the end of the year 9999 for later ones;
    None if it is no time."""
    if not _is_time(value):
        return None
    try:
        at = datetime.fromisoformat(value.upper().replace(" ", "+"))
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((min(at, _LAST) - _EPOCH) // timedelta(milliseconds=1), 0)


def time_faults(query: Mapping[str, Any], *names: str) -> list[Fault]:
    """Faults of values that match the pattern but are not times, such as February 30."""
    return [
        {"field": name, "message": _MESSAGE}
        for name in names
        if isinstance(value := query.get(name), str) and parse_time(value) is None
    ]
