"""The outermost ASGI layer: adds a request id to every response, turns every exception into the
error shape (or, for browsers, an error page), and logs and counts each request.

Pure ASGI, because every request passes through it.
"""

import logging
import time

from starlette.datastructures import State
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentjobs.store.database import StoreUnavailable
from agentjobs.web.access_log import AccessLog
from agentjobs.web.api.errors import error_response, internal_error, not_found, to_problem
from agentjobs.web.api.headers import all_headers
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.error_pages import error_page, wants_page
from agentjobs.web.exchange import Exchange
from agentjobs_runtime import logging_setup
from agentjobs_runtime.outage_log import outages
from agentjobs_runtime.problems import Problem

# nginx's status for a client that disconnected before the response.
CLIENT_CLOSED_REQUEST = 499

_log = logging.getLogger(__name__)


class Envelope:
    """Provides the context to the inner application as `request.app.state.context`."""

    def __init__(self, inner: ASGIApp, context: WebContext) -> None:
        self.state = State({"context": context})
        self._inner = inner
        self._requests = context.metrics.requests
        self._access_log = AccessLog(context.client_addresses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        scope["app"] = self
        exchange = Exchange(scope, send)
        token = logging_setup.request_id.set(exchange.request_id.decode())
        try:
            await self._run(exchange, scope, receive)
        finally:
            self._record(exchange, scope)
            exchange.detach(scope)
            logging_setup.request_id.reset(token)

    async def _run(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        try:
            # No path contains control characters, and `$` in a route pattern would match before a
            # trailing newline.
            if not scope["path"].isprintable():
                raise not_found()
            check_host(scope)
            await self._inner(scope, receive, exchange.send)
        except ClientDisconnect:
            pass
        except Exception as error:  # noqa: BLE001 - every exception becomes a response and a log line
            await self._handle_error(error, exchange, scope, receive)

    async def _handle_error(
        self, error: Exception, exchange: Exchange, scope: Scope, receive: Receive
    ) -> None:
        problem = to_problem(error)
        if problem is None:
            _log.error("unexpected failure", exc_info=error)
            problem = internal_error()
        elif isinstance(error, StoreUnavailable):
            outages.report("requests", error)
        if not exchange.status:
            response = await self._error_response(problem, exchange.request_id.decode(), scope)
            await response(scope, receive, exchange.send)
        # Otherwise the response has started; the server closes an unfinished one.

    async def _error_response(self, problem: Problem, request_id: str, scope: Scope) -> Response:
        request = Request(scope)
        if wants_page(request):
            return await error_page(request, problem, request_id)
        return error_response(problem, request_id)

    def _record(self, exchange: Exchange, scope: Scope) -> None:
        seconds = time.perf_counter() - exchange.started_at
        status = exchange.status or CLIENT_CLOSED_REQUEST
        route = scope.get("route")
        template = "other" if route is None else route.path
        self._requests.count(template, scope["method"], status, seconds)
        self._access_log.write(scope, status, seconds)


def check_host(scope: Scope) -> None:
    """Proxies disagree about which of two Host headers counts, so neither is accepted."""
    hosts = all_headers(scope, b"host")
    if len(hosts) != 1 or not hosts[0].strip():
        raise Problem("bad_request", "Send exactly one Host header.")
