"""Terminates TLS in front of a service, as a reverse proxy does."""

import asyncio
import contextlib
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

_SERVICE_PORT = 8080


@dataclass(frozen=True)
class TlsProxy:
    """`url` is the public address. The service listens on `service_host` and `service_port`."""

    url: str
    ca_file: Path
    service_host: str
    service_port: int = _SERVICE_PORT


@contextmanager
def tls_proxy(directory: Path) -> Iterator[TlsProxy]:
    authority = trustme.CA()
    ca_file = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    # An address of its own, where no other test has the port.
    host = (
        f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(_listen(context, host), loop).result()
        port = server.sockets[0].getsockname()[1]
        yield TlsProxy(f"https://127.0.0.1:{port}", ca_file, host)
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(context: ssl.SSLContext, host: str) -> asyncio.Server:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.CancelledError):
            upstream = await asyncio.open_connection(host, _SERVICE_PORT)
            await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer))
        writer.close()

    return await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
