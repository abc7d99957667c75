"""The web half as one ASGI application: which addresses there are, inside the outermost layer."""

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
        # Last: some of their addresses begin with an organization's name.
        *dashboard.routes(context),
    ]
    return _wrapped(routes, context)


def build_metrics_application(context: WebContext) -> ASGIApp:
    """`/metrics` alone and without a token, for an address of its own that only operators reach."""
    return _wrapped(page.open_routes(context), context)


def _wrapped(routes: list[BaseRoute], context: WebContext) -> ASGIApp:
    return Envelope(Router(routes, redirect_slashes=False), context)
