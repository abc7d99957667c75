"""The REST API in this process: every call passes the envelope, authentication, rate limit,
validation and access log of a request over HTTP, with the caller's own key."""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, urlencode

import msgspec
from starlette.types import ASGIApp, Message, Scope

from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.auth import CALLER
from agentjobs.web.exchange import EXCHANGE, Exchange
from agentjobs.web.mcp.rest_api import RestError, RestRequest, RestResponse, error_of

# Enough for a page of any listing and for the JSON of the largest diff.
MAX_RESPONSE_BYTES = 8 * 1024 * 1024

_BASE = "/v1"
# Who calls, from where, and in which trace.
_FORWARDED_HEADERS = frozenset({b"authorization", b"host", b"traceparent", b"x-forwarded-for"})


class InProcessApi:
    """For the caller of one request, whose scope has been authenticated."""

    def __init__(self, scope: Scope) -> None:
        self._outer = scope
        self._application: ASGIApp = scope["app"]

    async def send(self, request: RestRequest) -> RestResponse:
        content = b"" if request.body is None else msgspec.json.encode(request.body)
        messages = _Messages(content)
        await self._application(self._scope(request, content), messages.receive, messages.send)
        return messages.response()

    async def is_read_only(self) -> bool:
        caller: Caller = self._outer[CALLER]
        return "jobs" not in caller.scope.split()

    def _scope(self, request: RestRequest, content: bytes) -> Scope:
        outer_exchange: Exchange = self._outer[EXCHANGE]
        headers = [
            *(
                (name, value)
                for name, value in self._outer["headers"]
                if name in _FORWARDED_HEADERS
            ),
            (b"accept", request.accept.encode()),
            # One id for both, so that the access log shows what a call of a tool did.
            (b"x-request-id", outer_exchange.request_id),
        ]
        if content:
            headers.append((b"content-type", b"application/json"))
        path = _BASE + request.path
        return {
            **{name: self._outer[name] for name in ("asgi", "client", "server", "scheme")},
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode(request.query, quote_via=quote).encode(),
            "root_path": "",
            "headers": headers,
        }


class _Messages:
    """The ASGI messages of a call and of its response."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()
        self._is_too_large = False

    async def receive(self) -> Message:
        if self._content is None:
            # A client that leaves cancels the call from outside.
            await asyncio.Event().wait()
        message = {"type": "http.request", "body": self._content, "more_body": False}
        self._content = None
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message["headers"]
            }
        elif len(self._body) + len(message.get("body", b"")) > MAX_RESPONSE_BYTES:
            self._is_too_large = True
        else:
            self._body += message.get("body", b"")

    def response(self) -> RestResponse:
        if self._status >= 400:
            raise error_of(bytes(self._body))
        if self._is_too_large:
            raise RestError("response_too_large", "The response is too large; ask for less.")
        return RestResponse(bytes(self._body), self._headers)
