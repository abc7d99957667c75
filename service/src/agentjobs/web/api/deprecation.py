"""Announces what a later version removes: headers of responses, and notes in the OpenAPI document.

`Deprecation` is defined by RFC 9745, `Sunset` by RFC 8594. docs/compatibility.md is the policy.
"""

import datetime
from collections.abc import Mapping
from email.utils import format_datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Scope

from agentjobs.web.exchange import Headers


class Deprecation(NamedTuple):
    """The times are midnights UTC, a year or more apart; `replacement` is a sentence."""

    since: datetime.datetime
    sunset: datetime.datetime
    replacement: str


# By the identifier of an operation, or of one and its parameter: `listJobs?status`.
DEPRECATED: Mapping[str, Deprecation] = {}


def deprecation_headers(operation: str, docs: str, scope: Scope) -> Headers:
    """The headers for what a request uses; `docs` is the address of the reference."""
    parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    names = [operation, *(f"{operation}?{name}" for name, _ in parameters)]
    used = [DEPRECATED[name] for name in names if name in DEPRECATED]
    if not used:
        return ()
    first = min(used, key=lambda deprecation: deprecation.sunset)
    return (
        (b"deprecation", b"@%d" % first.since.timestamp()),
        (b"sunset", format_datetime(first.sunset, usegmt=True).encode()),
        (b"link", f'<{docs}#{operation}>; rel="deprecation"; type="text/html"'.encode()),
    )


def deprecation_fields(name: str, description: str) -> dict[str, Any]:
    """What the document says of an operation or a parameter."""
    if name not in DEPRECATED:
        return {}
    since, sunset, replacement = DEPRECATED[name]
    note = f"Deprecated since {since:%Y-%m-%d}; removed on {sunset:%Y-%m-%d}. {replacement}"
    return {"deprecated": True, "description": f"{description}\n\n{note}"}
