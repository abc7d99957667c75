"""The client of a caller of `/mcp`: its requests go to the API of this process.

Every call passes the envelope, authentication, rate limit, validation and access log of a request
over HTTP, with the caller's own key.
"""

import httpx
from starlette.types import Scope

from agentjobs.organizations.authentication import Caller
from agentjobs.web.api.auth import CALLER, bearer_token
from agentjobs.web.exchange import EXCHANGE, Exchange
from agentjobs.web.mcp.tool_client import ToolClient

# Where the request comes from, and in which trace.
_FORWARDED_HEADERS = frozenset({b"host", b"traceparent", b"x-forwarded-for"})


class InProcessClient(ToolClient):
    """A client for the caller of one request, whose scope has been authenticated."""

    def __init__(self, scope: Scope) -> None:
        transport = httpx.ASGITransport(scope["app"], client=scope["client"])
        super().__init__(
            "http://agentjobs", bearer_token(scope) or "", transport=transport, retries=0
        )
        caller: Caller = scope[CALLER]
        exchange: Exchange = scope[EXCHANGE]
        self._is_read_only = "jobs" not in caller.scope.split()
        # One id for both, so that the access log shows what a call of a tool did.
        forwarded = [(b"x-request-id", exchange.request_id)]
        forwarded += [header for header in scope["headers"] if header[0] in _FORWARDED_HEADERS]
        self._http.headers.update(forwarded)
