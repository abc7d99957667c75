"""Assembles all HTTP routes into one ASGI application, wrapped in the envelope."""

from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from agentjobs.web.api import documents, health, operations
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard import routes as dashboard
from agentjobs.web.envelope import Envelope
from agentjobs.web.git import routes as git_http
from agentjobs.web.hooks import routes as hooks
from agentjobs.web.metrics import page


def build_application(context: WebContext) -> ASGIApp:
    routes: list[BaseRoute] = [
        *operations.routes(context),
        *documents.routes(),
        *health.routes,
        *page.routes(context),
        *git_http.routes,
        *hooks.routes,
        # Last, because some dashboard paths start with an organization name.
        *dashboard.routes(context),
    ]
    return _wrap(routes, context)


def build_metrics_application(context: WebContext) -> ASGIApp:
    """`/metrics` without a token, for the separate address that only operators can reach."""
    return _wrap(page.open_routes(context), context)


def _wrap(routes: list[BaseRoute], context: WebContext) -> ASGIApp:
    return Envelope(Router(routes, redirect_slashes=False), context)
