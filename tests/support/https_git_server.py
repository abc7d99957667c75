"""The tests' git server on HTTPS with its own certificate authority, and a server that hangs."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.support.workspace_git_server import OriginServer, origin_server

HOSTS = ("127.0.0.1", "git.test")


@dataclass(frozen=True)
class HttpsOrigin:
    """`origin` serves every bare repository under a directory, and can misbehave."""

    origin: OriginServer
    authorities: Path

    def url(self, repository: str, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.origin.server_port}/{repository}"


@contextmanager
def https_origin(root: Path) -> Iterator[HttpsOrigin]:
    root.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    with origin_server(root) as origin:
        origin.socket = server_context(authority).wrap_socket(
            # The thread of the request performs the handshake, not the accepting thread.
            origin.socket,
            server_side=True,
            do_handshake_on_connect=False,
        )
        file = root.parent / "authorities.pem"
        authority.cert_pem.write_to_path(str(file))
        yield HttpsOrigin(origin, file)


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*HOSTS).configure_cert(context)
    return context


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Accepts connections and sends nothing; the event is set at the first connection."""
    connected = asyncio.Event()
    stopping = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await stopping.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], connected
    finally:
        stopping.set()
        server.close()
