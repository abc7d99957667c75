"""`/metrics` for Prometheus: protected by a token, or open on a separate address."""

import hmac

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.web.api.auth import bearer_token
from agentjobs.web.context import WebContext
from agentjobs_runtime.problems import Problem


class MetricsPage:
    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def with_token(self, request: Request) -> Response:
        token = self._context.settings.metrics_token
        received = bearer_token(request.scope) or ""
        if not hmac.compare_digest(received.encode(), token.encode()):
            raise Problem(
                "unauthorized", "Send the metrics token as `Authorization: Bearer <token>`."
            )
        return await self.without_token(request)

    async def without_token(self, _request: Request) -> Response:
        body = await self._context.metrics.export(self._context.db, self._context.settings)
        return Response(
            body, headers={"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"}
        )


def routes(context: WebContext) -> list[BaseRoute]:
    """Empty unless a token is set: metrics are not for everyone who reaches the API."""
    if not context.settings.metrics_token:
        return []
    return [Route("/metrics", MetricsPage(context).with_token)]


def open_routes(context: WebContext) -> list[BaseRoute]:
    return [Route("/metrics", MetricsPage(context).without_token)]
