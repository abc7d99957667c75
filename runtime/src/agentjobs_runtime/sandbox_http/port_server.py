"""An HTTP server on a port of one job's sandbox, with a bounded number of connections.

Its handler decides everything about a request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_CONNECTIONS = 256
CLOSE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 75
_LINGER_SECONDS = 2
_SHUTDOWN_SECONDS = 0.01
# aiohttp logs malformed requests with a traceback each; handlers log their own faults.
_SILENT_LOGGER = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001 - no handler may hear it

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PortServer:
    """Cancels the handler of a client that disconnects."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            logger=_SILENT_LOGGER,
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGER_SECONDS,
        )

    @property
    def connections(self) -> int:
        return len(self._server.connections)

    @property
    def active_requests(self) -> int:
        return len(self._tasks)

    def protocol(self) -> asyncio.BaseProtocol:
        """The protocol factory for `loop.create_server`."""
        if self._closed or self.connections >= MAX_CONNECTIONS:
            return _ClosingProtocol()
        return self._server()

    async def close(self) -> None:
        """Cancel all handlers and close all connections."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        await self._server.shutdown(_SHUTDOWN_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await self._handler(request)
        finally:
            self._tasks.discard(task)


def abort(request: web.BaseRequest) -> None:
    """Abort the connection like the server did, so that the response is not taken as complete."""
    if request.transport is not None:
        request.transport.abort()


class _ClosingProtocol(asyncio.Protocol):
    """Closes connections above the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
