"""`/healthz` (the process is alive) and `/readyz` (it can do its work), without a token."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.opening import schema_is_supported
from agentjobs.web.api.endpoint import Reply
from agentjobs.web.api.errors import stopping
from agentjobs.web.context import WebContext
from agentjobs_runtime.problems import Problem

# Anybody may ask, and each check writes to the disk.
_CHECK_SECONDS = 1.0


class Readiness:
    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()
        self._checked_at = -_CHECK_SECONDS
        self._error: StoreUnavailable | None = None

    async def readyz(self, _request: Request) -> Response:
        if self._context.stopping.is_set():
            raise stopping()
        db = self._context.db
        await db.ping()
        if not await schema_is_supported(db):
            raise Problem(
                "unavailable",
                "This program cannot run on the schema of the database; run `agentjobs migrate`.",
                retry_after_seconds=5,
            )
        async with self._lock:
            await self._check_writable()
        if problem := self._context.find_problem():
            raise Problem("unavailable", problem, retry_after_seconds=5)
        return Reply(200, {"status": "ready"})

    async def _check_writable(self) -> None:
        if time.monotonic() - self._checked_at >= _CHECK_SECONDS:
            self._error = None
            try:
                await self._context.db.check_writable()
            except StoreUnavailable as error:
                self._error = error
            self._checked_at = time.monotonic()
        if self._error is not None:
            raise self._error


async def healthz(request: Request) -> Response:
    context: WebContext = request.app.state.context
    return Reply(200, {"status": "ok", "instance": context.instance})


def routes(context: WebContext) -> list[BaseRoute]:
    return [Route("/healthz", healthz), Route("/readyz", Readiness(context).readyz)]
