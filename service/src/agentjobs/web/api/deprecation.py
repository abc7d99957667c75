"""Announces what a later version removes: headers of the response, and notes for the document.

`Deprecation` is defined by RFC 9745, `Sunset` by RFC 8594. docs/compatibility.md is the policy.
"""

import datetime
from collections.abc import Mapping
from email.utils import format_datetime
from urllib.parse import unquote_plus

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from agentjobs.web.api.endpoint import Call, Handler
from agentjobs.web.exchange import EXCHANGE, Exchange, Headers

MIN_NOTICE = datetime.timedelta(days=365)
DOCUMENTED_HEADERS: Mapping[str, str] = {
    "Deprecation": "Since when this is deprecated, as `@` and seconds since 1970 (RFC 9745).",
    "Sunset": "When this is removed (RFC 8594).",
    "Link": 'Where the deprecation is explained, with `rel="deprecation"`.',
}


class Deprecation(msgspec.Struct, frozen=True, kw_only=True):
    """`replacement` is a sentence that says what to use instead."""

    since: datetime.date
    sunset: datetime.date
    replacement: str

    def __post_init__(self) -> None:
        if self.sunset - self.since < MIN_NOTICE:
            raise ValueError("The policy promises a notice of at least a year.")

    @property
    def note(self) -> str:
        return f"Deprecated since {self.since}; removed on {self.sunset}. {self.replacement}"


def add_deprecation(
    handler: Handler,
    link: str,
    operation: Deprecation | None,
    parameters: Mapping[str, Deprecation],
) -> Handler:
    """The handler, with the headers for what a request uses; `link` is the operation's section."""
    if operation is None and not parameters:
        return handler

    async def announce(call: Call) -> Response:
        used = _find_used(call.scope, operation, parameters)
        exchange: Exchange | None = call.scope.get(EXCHANGE)
        if used and exchange is not None:
            exchange.headers = _headers(min(used, key=lambda deprecation: deprecation.sunset), link)
        return await handler(call)

    return announce


def _find_used(
    scope: Scope, operation: Deprecation | None, parameters: Mapping[str, Deprecation]
) -> list[Deprecation]:
    pairs = scope["query_string"].decode("latin-1").split("&")
    names = {unquote_plus(pair.partition("=")[0]) for pair in pairs}
    used = [parameter for name, parameter in parameters.items() if name in names]
    return used if operation is None else [operation, *used]


def _headers(deprecation: Deprecation, link: str) -> Headers:
    since, sunset = _midnight(deprecation.since), _midnight(deprecation.sunset)
    return (
        (b"deprecation", b"@%d" % since.timestamp()),
        (b"sunset", format_datetime(sunset, usegmt=True).encode()),
        (b"link", f'<{link}>; rel="deprecation"; type="text/html"'.encode()),
    )


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
