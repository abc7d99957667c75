"""`/mcp`: the Model Context Protocol over streamable HTTP, without sessions.

Each POST is complete in itself, so any process of the service can answer it. The package `mcp` is
imported by the first one: it costs 25 MB and most of a second.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from agentjobs.web.api.auth import authenticate
from agentjobs.web.api.connected import Interruption, run_while_connected
from agentjobs.web.api.errors import method_not_allowed
from agentjobs.web.api.requests import check_content_encoding, read_json
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.origins import has_own_origin
from agentjobs.web.exchange import EXCHANGE, Exchange
from agentjobs_runtime.problems import Problem

ServePost = Callable[[Scope, bytes, Send], Coroutine[Any, Any, None]]

PATH = "/mcp"


def routes(context: WebContext) -> list[BaseRoute]:
    return [Route(PATH, McpEndpoint(context))]


class McpEndpoint:
    """An ASGI application, with the checks that the endpoints of the API have."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._serve_post: ServePost | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # There are no sessions to end, and no messages outside of a response.
            raise method_not_allowed(scope["method"], "POST")
        if not has_own_origin(Request(scope), self._context.settings):
            raise Problem(
                "foreign_origin",
                "Browsers may use /mcp only from the public address of the service; other clients"
                " send no Origin header.",
            )
        caller = await authenticate(self._context, scope)
        exchange: Exchange = scope[EXCHANGE]
        exchange.rate_limit = await self._context.rate_limiter.admit(caller.key_id)
        check_content_encoding(scope)
        content = await read_json(scope, receive)
        if self._serve_post is None:
            self._serve_post = await asyncio.to_thread(_import_transport)
        serving = self._serve_post(scope, content, send)
        if await run_while_connected(serving, receive) is Interruption.CLIENT:
            raise ClientDisconnect


def _import_transport() -> ServePost:
    from agentjobs.web.mcp.transport import serve_post  # noqa: PLC0415 - see above

    return serve_post
