"""One path of the API: its methods, and the checks that run before each handler."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.organizations.api_keys import Scope as KeyScope
from agentjobs.organizations.audit import Actor
from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.auth import READING_METHODS, authenticate, check_scope
from agentjobs.web.api.deprecation import DEPRECATED, deprecation_headers
from agentjobs.web.api.errors import method_not_allowed, stopping
from agentjobs.web.api.rate_limit import RateLimiter
from agentjobs.web.api.requests import check_content_encoding
from agentjobs.web.api.trace import is_traced, respond_traced
from agentjobs.web.api.warnings import add_warnings, ignored_parts
from agentjobs.web.context import WebContext
from agentjobs.web.exchange import EXCHANGE, Exchange, Headers

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


class Method(NamedTuple):
    """An operation: the scope that it needs, and the types that declare the known query parameters
    and fields of the body."""

    operation: str
    handler: Handler
    scope: KeyScope
    query: type | None
    request: type[msgspec.Struct] | None


class Endpoint:
    """An ASGI application. HEAD runs the GET handler; the server omits the body."""

    def __init__(
        self, context: WebContext, limiter: RateLimiter, methods: Mapping[str, Method]
    ) -> None:
        self._context = context
        self._limiter = limiter
        self._methods = dict(methods)
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]
        self._allow = ", ".join(sorted(self._methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["method"]
        method = self._methods.get(name)
        if method is None:
            raise method_not_allowed(name, self._allow)
        context = self._context
        caller = await authenticate(context, scope)
        exchange: Exchange | None = scope.get(EXCHANGE)
        rate_limit = await self._limiter.admit(caller.key_id)
        if exchange is not None:
            exchange.rate_limit = rate_limit
            if DEPRECATED:
                docs = f"{context.settings.public_path}/v1/docs"
                exchange.headers = deprecation_headers(method.operation, docs, scope)
        check_content_encoding(scope)
        if name not in READING_METHODS:
            check_scope(caller, method.scope)
            if context.stopping.is_set():
                raise stopping()
        call = Call(context, caller, scope, receive)
        if is_traced(scope):
            response = await respond_traced(scope, caller, lambda: method.handler(call))
        else:
            response = await method.handler(call)
        if isinstance(response, Reply):
            if warnings := ignored_parts(scope, method.query, method.request):
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
