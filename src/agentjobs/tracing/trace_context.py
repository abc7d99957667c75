"""The header `traceparent` of W3C Trace Context, as text. `tracestate` is not handed on."""

import re
from collections.abc import Sequence

HEADER = "traceparent"
# What agents find in their environment.
VARIABLE = "TRACEPARENT"

_LENGTH = 55
_FIELDS = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
# Whether the caller records its trace, and whether its identifier is random.
_KNOWN_FLAGS = 0x03


def read_traceparent(values: Sequence[bytes]) -> str | None:
    """The trace of a request, in version 00; None if the values of its header are not valid."""
    if len(values) != 1:
        return None
    fields = _FIELDS.fullmatch(values[0], endpos=_LENGTH)
    if fields is None:
        return None
    version, trace_id, span_id, flags = fields.groups()
    # Later versions may append fields.
    rest = values[0][_LENGTH:]
    if version == b"ff" or (rest and (version == b"00" or not rest.startswith(b"-"))):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return f"00-{trace_id.decode()}-{span_id.decode()}-{int(flags, 16) & _KNOWN_FLAGS:02x}"
