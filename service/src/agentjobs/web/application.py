"""Assembles all HTTP routes into one ASGI application, wrapped in the envelope."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from agentjobs.web.api import documents, health, operations
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard import routes as dashboard
from agentjobs.web.envelope import Envelope
from agentjobs.web.git import routes as git_http
from agentjobs.web.hooks import routes as hooks
from agentjobs.web.mcp import endpoint as mcp
from agentjobs.web.metrics import page


class ServiceRouter(Router):
    """Tries the routes of the API first, with less work for each than Starlette's own matching."""

    def __init__(self, api: Sequence[Route], others: Sequence[BaseRoute]) -> None:
        super().__init__(others, redirect_slashes=False)
        self._api = [(route.path_regex.match, route) for route in api]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        for match_path, route in self._api:
            if match := match_path(path):
                scope["route"] = route
                scope["path_params"] = match.groupdict()
                await route.app(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def build_application(context: WebContext) -> ASGIApp:
    others: list[BaseRoute] = [
        *documents.routes(context.settings),
        *health.routes(context),
        *page.routes(context),
        *git_http.routes,
        *hooks.routes,
        *mcp.routes(context),
        # Last, because some dashboard paths start with an organization name.
        *dashboard.routes(context),
    ]
    return Envelope(ServiceRouter(operations.routes(context), others), context)


def build_metrics_application(context: WebContext) -> ASGIApp:
    """Health and `/metrics` without a token, for the separate address of operators."""
    routes = [*health.routes(context), *page.open_routes(context)]
    return Envelope(Router(routes, redirect_slashes=False), context)
