"""The HTTP server inside this process: bound before anything starts, stopped by us alone."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from agentjobs.problems import Problem
from agentjobs.web.http_protocol import HttpProtocol

_BACKLOG = 2_048
_KEEP_ALIVE_SECONDS = 75
_LAST_ANSWERS_SECONDS = 10


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or a refusal that says what to do about it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by every connection: a short answer must not wait for the last one's receipt.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Problem(
            "cannot_listen",
            f"Cannot listen on {host} port {port}: {error.strerror}. "
            "Choose another with --host and --port, or stop what listens there.",
        ) from None
    listener.set_inheritable(False)
    return listener


class Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals are the wiring's: it drains the worker before this server may go.
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
            timeout_graceful_shutdown=_LAST_ANSWERS_SECONDS,
        )
    )
