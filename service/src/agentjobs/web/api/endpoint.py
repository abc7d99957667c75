"""One path of the API: its methods, and the checks that run before each handler."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.organizations.audit import Actor
from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.auth import READING_METHODS, authenticate, check_scope
from agentjobs.web.api.deprecation import DEPRECATED, deprecation_headers
from agentjobs.web.api.errors import method_not_allowed, stopping
from agentjobs.web.api.requests import check_content_encoding
from agentjobs.web.api.trace import is_traced, respond_traced
from agentjobs.web.api.warnings import add_warnings, ignored_parts
from agentjobs.web.context import WebContext
from agentjobs.web.exchange import EXCHANGE, Exchange, Headers

if TYPE_CHECKING:
    from agentjobs.web.api.operation import Operation

_ENCODE = msgspec.json.Encoder().encode
_COMMON_HEADERS = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
)


@dataclass(slots=True)
class Call:
    """An authenticated request."""

    context: WebContext
    caller: Caller
    scope: Scope
    receive: Receive

    @property
    def path(self) -> dict[str, str]:
        params: dict[str, str] = self.scope["path_params"]
        return params

    @property
    def actor(self) -> Actor:
        """The API key, as the audit log names it."""
        address = self.context.client_addresses.of(self.scope)
        return Actor("key", self.caller.name, self.caller.key_id, address)


Handler = Callable[[Call], Awaitable[Response]]


class Endpoint:
    """An ASGI application. HEAD runs the GET handler; the server omits the body."""

    def __init__(self, context: WebContext, operations: "Mapping[str, Operation]") -> None:
        """`operations` has those of the path by their methods."""
        self._context = context
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        operation = self._operations.get(method)
        if operation is None:
            raise method_not_allowed(method, self._allow)
        context = self._context
        caller = await authenticate(context, scope)
        exchange: Exchange | None = scope.get(EXCHANGE)
        rate_limit = await context.rate_limiter.admit(caller.key_id)
        if exchange is not None:
            exchange.rate_limit = rate_limit
            if DEPRECATED:
                docs = f"{context.settings.public_path}/v1/docs"
                exchange.headers = deprecation_headers(operation.id, docs, scope)
        check_content_encoding(scope)
        if method not in READING_METHODS:
            check_scope(caller, operation.scope)
            if context.stopping.is_set():
                raise stopping()
        call = Call(context, caller, scope, receive)
        if is_traced(scope):
            response = await respond_traced(scope, caller, lambda: operation.handler(call))
        else:
            response = await operation.handler(call)
        if isinstance(response, Reply):
            if warnings := ignored_parts(scope, operation.query, operation.request):
                response.body = add_warnings(response.body, warnings)
            if exchange is not None and exchange.write(
                response.status_code, response.common_headers, response.body
            ):
                return
        await response(scope, receive, send)


class Reply(Response):
    """A JSON response that must not be cached. Only ASGI messages need its length as a header."""

    body: bytes

    def __init__(self, status: int, value: Any, headers: Headers = ()) -> None:
        self.status_code = status
        self.background = None
        self.body = _ENCODE(value)
        self.common_headers = (*_COMMON_HEADERS, *headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", str(len(self.body)).encode())
        self.raw_headers = [length, *self.common_headers]
        await super().__call__(scope, receive, send)
