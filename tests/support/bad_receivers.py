"""Receivers of webhooks that behave badly, on real sockets of 127.0.0.1.

A behaviour is a function of one visit, which is a connection; `receiver` serves it. Each visitor
is told what the behaviour says, and every request that was read whole is kept.
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
    """Header names in lower case; `head` as it came."""

    head: bytes
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    port: int
    is_tls: bool = False
    requests: list[Received] = field(default_factory=list)
    visits: int = 0
    # Set again and again, for those who wait for the next thing to happen.
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}/hook?a=b"

    async def until(self, is_so: Callable[["Receiver"], bool]) -> None:
        while not is_so(self):
            self.happened.clear()
            await self.happened.wait()


class Visit:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.receiver = receiver

    async def request_head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> Received:
        """Raises IncompleteReadError when the visitor has left."""
        head = await self.request_head()
        lines = head.decode("latin-1").split("\r\n")[1:]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        received = Received(head, headers, body)
        self.receiver.requests.append(received)
        self.receiver.happened.set()
        return received

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_gone(self) -> None:
        while await self.reader.read(64 * 1024):
            pass

    def reset(self) -> None:
        """With RST, not FIN."""
        connection: socket.socket = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Visit], Awaitable[None]]


@asynccontextmanager
async def receiver(
    behaviour: Behaviour, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    visitors: set[asyncio.Task[None]] = set()
    served = Receiver(0, is_tls=tls is not None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        visitors.add(task)
        served.visits += 1
        served.happened.set()
        # Visitors leave as they please, and the server's end is the end of all visits.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behaviour(Visit(reader, writer, served))
        writer.transport.abort()
        visitors.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for each in list(visitors):
            each.cancel()
        await asyncio.gather(*visitors, return_exceptions=True)
        await server.wait_closed()


def closed_port() -> int:
    """Nobody listens there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


# Answers


def answer(
    status: int, headers: Mapping[str, str] | None = None, body: bytes = b"", reason: str = "Said"
) -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if status != 204:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answers(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Behaviour:
    return in_turn(answer(status, headers, body))


def in_turn(*said: bytes) -> Behaviour:
    """One answer for each request over all visits; the last for all that follow."""
    left = itertools.chain(said, itertools.repeat(said[-1]))

    async def behave(visit: Visit) -> None:
        while True:
            await visit.request()
            await visit.say(next(left))

    return behave


def fails_thrice() -> Behaviour:
    return in_turn(*[answer(500)] * 3, answer(200))


def redirects(status: int, location: str = "http://169.254.169.254/latest/meta-data/") -> Behaviour:
    return answers(status, {"Location": location})


def says(data: bytes) -> Behaviour:
    """Exactly this, and the end."""

    async def behave(visit: Visit) -> None:
        await visit.request()
        await visit.say(data)
        visit.writer.write_eof()
        await visit.until_gone()

    return behave


RETRY_AFTER = {
    "seconds": "7",
    "date": "Wed, 21 Oct 2065 07:28:00 GMT",
    "nonsense": "soon-ish",
    "huge": "9" * 40,
}


def too_many(retry_after: str) -> Behaviour:
    return answers(429, {"Retry-After": retry_after})


# Slow, and without an end


async def never_answers(visit: Visit) -> None:
    await visit.request()
    await visit.until_gone()


async def never_shakes_hands(visit: Visit) -> None:
    """For an https address: TCP is accepted, TLS is not spoken."""
    await visit.until_gone()


def drips_head(every_seconds: float = 1) -> Behaviour:
    async def behave(visit: Visit) -> None:
        await visit.request()
        await _drip(visit, answer(200, {"X-Long": "x" * 10_000}), every_seconds)

    return behave


def drips_body(every_seconds: float = 1) -> Behaviour:
    async def behave(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        await _drip(visit, b"x" * 10_000, every_seconds)

    return behave


async def _drip(visit: Visit, data: bytes, every_seconds: float) -> None:
    for at in range(len(data)):
        await visit.say(data[at : at + 1])
        await asyncio.sleep(every_seconds)


async def endless_body(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await visit.say(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


async def endless_trailers(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    while True:
        await visit.say(b"x-trailer: x\r\n" * 1_000)


async def endless_chunk_extension(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n1;")
    while True:
        await visit.say(b"x" * 0x10000)


async def endless_interim_answers(visit: Visit) -> None:
    await visit.request()
    while True:
        await visit.say(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)


async def endless_answers(visit: Visit) -> None:
    await visit.request()
    while True:
        await visit.say(answer(200) * 1_000)


async def gzip_bomb(visit: Visit) -> None:
    await visit.request()
    await visit.say(answer(200, {"Content-Encoding": "gzip"}, _bomb()))
    await visit.until_gone()


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(64 * MIB), 1)


async def one_huge_header(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nX-Huge: ")
    for _ in range(10):
        await visit.say(b"x" * MIB)
    await visit.say(b"\r\nContent-Length: 0\r\n\r\n")
    await visit.until_gone()


async def many_headers(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\n")
    for _ in range(10):
        await visit.say(b"X-Many: xxxxx\r\n" * (MIB // 15))
    await visit.say(b"Content-Length: 0\r\n\r\n")
    await visit.until_gone()


# Cut off


async def resets_at_once(visit: Visit) -> None:
    visit.reset()


async def resets_in_handshake(visit: Visit) -> None:
    """For an https address."""
    await visit.reader.readexactly(5)
    visit.reset()


async def closes_in_handshake(visit: Visit) -> None:
    """For an https address."""
    await visit.reader.readexactly(5)


async def resets_after_request_head(visit: Visit) -> None:
    await visit.request_head()
    visit.reset()


async def resets_after_request(visit: Visit) -> None:
    await visit.request()
    visit.reset()


async def resets_mid_head(visit: Visit) -> None:
    await visit.request()
    await visit.say(b"HTTP/1.1 200 OK\r\nX-Half: ")
    visit.reset()


async def closes_after_request(visit: Visit) -> None:
    await visit.request()


def resets_mid_body(head_was_read: asyncio.Event) -> Behaviour:
    """As soon as the visitor is known to have read the head."""

    async def behave(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await head_was_read.wait()
        visit.reset()

    return behave


# Wrong TLS


async def speaks_plain_text(visit: Visit) -> None:
    """For an https address."""
    await visit.reader.readexactly(5)
    await visit.say(answer(400))
    await visit.until_gone()


@dataclass
class Authority:
    """`file` is what a client trusts."""

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

    def stranger(self, *names: str) -> ssl.SSLContext:
        """Of an authority that nobody knows, as a self-signed one is."""
        return self.certificate(*names, authority=trustme.CA())

    def wants_client_certificate(self, *names: str) -> Behaviour:
        """For an https address. TLS 1.3 says so only after the visitor's part of the handshake."""
        context = self.certificate(*names)
        context.verify_mode = ssl.CERT_REQUIRED
        self.authority.configure_trust(context)

        async def behave(visit: Visit) -> None:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            handshake = context.wrap_bio(incoming, outgoing, server_side=True)
            with contextlib.suppress(ssl.SSLError):
                while _wants_more(handshake):
                    await visit.say(outgoing.read())
                    incoming.write(await visit.reader.read(64 * 1024))
            await visit.say(outgoing.read())
            await visit.until_gone()

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
