"""Webhook receivers that behave badly, on real sockets of 127.0.0.1.

A behaviour is a function of one connection; `receiver` serves it to every client. Every request
that was read completely is kept.
"""

import asyncio
import contextlib
import gzip
import itertools
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import trustme

MIB = 1024 * 1024


@dataclass
class Received:
    """Header names are in lower case; `head` is unchanged."""

    head: bytes
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    port: int
    is_tls: bool = False
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    # Set at every connection and request, for tests that wait for the next.
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}/hook?a=b"

    async def until(self, condition: Callable[["Receiver"], bool]) -> None:
        while not condition(self):
            self.changed.clear()
            await self.changed.wait()


class Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.receiver = receiver

    async def request_head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> Received:
        """Raises IncompleteReadError when the client has disconnected."""
        head = await self.request_head()
        lines = head.decode("latin-1").split("\r\n")[1:]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        received = Received(head, headers, body)
        self.receiver.requests.append(received)
        self.receiver.changed.set()
        return received

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        while await self.reader.read(64 * 1024):
            pass

    def reset(self) -> None:
        """With RST, not FIN."""
        connection: socket.socket = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[None]]


@asynccontextmanager
async def receiver(
    behaviour: Behaviour, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    tasks: set[asyncio.Task[None]] = set()
    served = Receiver(0, is_tls=tls is not None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        served.connections += 1
        served.changed.set()
        # Clients may disconnect at any time, and closing the server cancels all connections.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behaviour(Connection(reader, writer, served))
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for each in list(tasks):
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def closed_port() -> int:
    """A port without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


# Responses


def response(
    status: int, headers: Mapping[str, str] | None = None, body: bytes = b"", reason: str = "Said"
) -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if status != 204:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def responds(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Behaviour:
    return in_sequence(response(status, headers, body))


def in_sequence(*responses: bytes) -> Behaviour:
    """One response per request over all connections; the last response repeats."""
    remaining = itertools.chain(responses, itertools.repeat(responses[-1]))

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(next(remaining))

    return behave


def fails_thrice() -> Behaviour:
    return in_sequence(*[response(500)] * 3, response(200))


def redirects(status: int, location: str = "http://169.254.169.254/latest/meta-data/") -> Behaviour:
    return responds(status, {"Location": location})


def sends(data: bytes) -> Behaviour:
    """Sends exactly this and closes."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(data)
        connection.writer.write_eof()
        await connection.until_closed()

    return behave


RETRY_AFTER = {
    "seconds": "7",
    "date": "Wed, 21 Oct 2065 07:28:00 GMT",
    "nonsense": "soon-ish",
    "huge": "9" * 40,
}


def too_many(retry_after: str) -> Behaviour:
    return responds(429, {"Retry-After": retry_after})


# Slow and endless


async def never_responds(connection: Connection) -> None:
    await connection.request()
    await connection.until_closed()


async def never_starts_tls(connection: Connection) -> None:
    """For an https URL: accepts TCP but does not start TLS."""
    await connection.until_closed()


def drips_head(every_seconds: float = 1) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await _drip(connection, response(200, {"X-Long": "x" * 10_000}), every_seconds)

    return behave


def drips_body(every_seconds: float = 1) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        await _drip(connection, b"x" * 10_000, every_seconds)

    return behave


async def _drip(connection: Connection, data: bytes, every_seconds: float) -> None:
    for at in range(len(data)):
        await connection.send(data[at : at + 1])
        await asyncio.sleep(every_seconds)


async def endless_body(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await connection.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


async def endless_trailers(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    while True:
        await connection.send(b"x-trailer: x\r\n" * 1_000)


async def endless_chunk_extension(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n1;")
    while True:
        await connection.send(b"x" * 0x10000)


async def endless_interim_responses(connection: Connection) -> None:
    await connection.request()
    while True:
        await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)


async def endless_responses(connection: Connection) -> None:
    await connection.request()
    while True:
        await connection.send(response(200) * 1_000)


async def gzip_bomb(connection: Connection) -> None:
    await connection.request()
    await connection.send(response(200, {"Content-Encoding": "gzip"}, _bomb()))
    await connection.until_closed()


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(64 * MIB), 1)


async def one_huge_header(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nX-Huge: ")
    for _ in range(10):
        await connection.send(b"x" * MIB)
    await connection.send(b"\r\nContent-Length: 0\r\n\r\n")
    await connection.until_closed()


async def many_headers(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    for _ in range(10):
        await connection.send(b"X-Many: xxxxx\r\n" * (MIB // 15))
    await connection.send(b"Content-Length: 0\r\n\r\n")
    await connection.until_closed()


# Closed early


async def resets_at_once(connection: Connection) -> None:
    connection.reset()


async def resets_in_handshake(connection: Connection) -> None:
    """For an https URL."""
    await connection.reader.readexactly(5)
    connection.reset()


async def closes_in_handshake(connection: Connection) -> None:
    """For an https URL."""
    await connection.reader.readexactly(5)


async def resets_after_request_head(connection: Connection) -> None:
    await connection.request_head()
    connection.reset()


async def resets_after_request(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def resets_mid_head(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nX-Half: ")
    connection.reset()


async def closes_after_request(connection: Connection) -> None:
    await connection.request()


def resets_mid_body(head_was_read: asyncio.Event) -> Behaviour:
    """As soon as the client is known to have read the head."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await head_was_read.wait()
        connection.reset()

    return behave


# Invalid TLS


async def speaks_plain_text(connection: Connection) -> None:
    """For an https URL."""
    await connection.reader.readexactly(5)
    await connection.send(response(400))
    await connection.until_closed()


@dataclass
class Authority:
    """`file` is the certificate that clients trust."""

    authority: trustme.CA
    file: Path

    def certificate(
        self, *names: str, expired: bool = False, authority: trustme.CA | None = None
    ) -> ssl.SSLContext:
        now = datetime.now(UTC)
        span = (now - timedelta(days=9), now - timedelta(days=2)) if expired else (None, None)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        issued = (authority or self.authority).issue_cert(
            *names, not_before=span[0], not_after=span[1]
        )
        issued.configure_cert(context)
        return context

    def untrusted(self, *names: str) -> ssl.SSLContext:
        """Signed by an unknown authority, like a self-signed certificate."""
        return self.certificate(*names, authority=trustme.CA())

    def wants_client_certificate(self, *names: str) -> Behaviour:
        """For an https URL. With TLS 1.3 the client learns this only after its own handshake."""
        context = self.certificate(*names)
        context.verify_mode = ssl.CERT_REQUIRED
        self.authority.configure_trust(context)

        async def behave(connection: Connection) -> None:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            handshake = context.wrap_bio(incoming, outgoing, server_side=True)
            with contextlib.suppress(ssl.SSLError):
                while _wants_more(handshake):
                    await connection.send(outgoing.read())
                    incoming.write(await connection.reader.read(64 * 1024))
            await connection.send(outgoing.read())
            await connection.until_closed()

        return behave


def _wants_more(handshake: ssl.SSLObject) -> bool:
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        return True
    return False


def new_authority(directory: Path) -> Authority:
    authority = trustme.CA()
    path = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    path.chmod(0o644)
    return Authority(authority, path)
