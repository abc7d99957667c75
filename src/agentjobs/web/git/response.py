"""The answer of a git request: what the backend says, passed on as it says it."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.web.git.backend import BackendRequest, running_backend
from agentjobs.web.git.body import Body


class Relay(Response):
    """Runs the backend; `afterwards` happens once git is done, and before the client hears so."""

    def __init__(
        self,
        asked: BackendRequest,
        body: Body,
        afterwards: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._asked = asked
        self._body = body
        self._afterwards = afterwards

    # The scope is ASGI's; everything of it that matters was read before.
    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with running_backend(self._asked) as backend:
                await backend.exchange(self._body, receive, send)
        finally:
            # Refs may have changed whatever became of the client.
            if self._afterwards is not None:
                await asyncio.shield(self._afterwards())
        await send({"type": "http.response.body", "body": b"", "more_body": False})
