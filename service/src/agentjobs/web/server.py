"""The in-process HTTP server: its listening socket and its uvicorn configuration."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from agentjobs.web.http_protocol import HttpProtocol
from agentjobs_runtime.problems import Problem

# How often the Date header is set.
_TICK_SECONDS = 1.0
_BACKLOG = 2_048
_KEEP_ALIVE_SECONDS = 75
_SHUTDOWN_SECONDS = 10


def bind(host: str, port: int, chosen_by: str = "--host and --port") -> socket.socket:
    """Raises Problem if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by every connection: a short response must not wait for the previous ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Problem(
            "cannot_listen",
            f"Cannot listen on {host} port {port}: {error.strerror}. "
            f"Choose another with {chosen_by}, or stop the process that listens there.",
        ) from None
    listener.set_inheritable(False)
    return listener


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        # uvicorn's own checks ten times a second whether it should stop.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._stopped.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # app.signals handles signals: the worker drains before this server stops.
        yield


def server_for(application: ASGIApp) -> Server:
    return Server(
        uvicorn.Config(
            application,
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )
