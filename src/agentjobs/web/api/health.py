"""`/healthz` (the process is alive) and `/readyz` (it can serve requests), without a token."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.problems import Problem
from agentjobs.store.opening import schema_is_supported
from agentjobs.web.api.endpoint import Reply
from agentjobs.web.api.errors import stopping
from agentjobs.web.context import WebContext


async def healthz(request: Request) -> Response:
    context: WebContext = request.app.state.context
    return Reply(200, {"status": "ok", "instance": context.instance})


async def readyz(request: Request) -> Response:
    context: WebContext = request.app.state.context
    if context.stopping.is_set():
        raise stopping()
    await context.db.ping()
    if not await schema_is_supported(context.db):
        raise Problem(
            "unavailable",
            "This program cannot run on the schema of the database; run `agentjobs migrate`.",
            retry_after_seconds=5,
        )
    return Reply(200, {"status": "ready"})


routes: list[BaseRoute] = [Route("/healthz", healthz), Route("/readyz", readyz)]
