"""The response to a git request, relayed from the backend."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentjobs.web.git.backend import BackendRequest, running_backend
from agentjobs.web.git.body import Body


class Relay(Response):
    """Runs the backend once `body` may be processed, which waits for a free slot.

    Calls `afterwards` when git has ended, before the response completes.
    """

    def __init__(
        self,
        backend_request: BackendRequest,
        body: AbstractAsyncContextManager[Body],
        afterwards: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._backend_request = backend_request
        self._body = body
        self._afterwards = afterwards

    # The scope was read before.
    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with (
                self._body as body,
                running_backend(self._backend_request, body.size_bytes) as backend,
            ):
                await backend.exchange(body, receive, send)
        finally:
            # Refs may have changed even if the client disconnected.
            if self._afterwards is not None:
                await asyncio.shield(self._afterwards())
        await send({"type": "http.response.body", "body": b"", "more_body": False})
