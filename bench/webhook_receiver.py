"""A lightweight receiver of webhooks that records when the first byte of each request arrived.

All processes of a machine share the monotonic clock, so the times are comparable. Requests to paths
below `/hang` never get a response.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

import msgspec

HANGING = "/hang"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_SEQUENCE = b"x-service-sequence: "

_Request = tuple[int, bytes]


@dataclass(frozen=True)
class Arrival:
    at_ns: int
    path: str
    job_id: str
    sequence: int


class Receiver:
    def __init__(self, port: int, requests: list[_Request]) -> None:
        self._port = port
        self._requests = requests

    async def port(self) -> int:
        return self._port

    async def answered(self) -> int:
        """Since the last call."""
        return sum(not _path(request).startswith(HANGING) for _, request in self._requests)

    async def take(self) -> list[Arrival]:
        taken = [_arrival(*one) for one in self._requests]
        self._requests.clear()
        return taken


@contextlib.asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    requests: list[_Request] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(requests), "127.0.0.1", 0, backlog=1_024)
    async with server:
        yield Receiver(server.sockets[0].getsockname()[1], requests)


class _Connection(asyncio.Protocol):
    def __init__(self, requests: list[_Request]) -> None:
        self._requests = requests
        self._received = b""
        self._since = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._since = time.monotonic_ns()
        self._received += data
        request = self._received
        if not _is_whole(request):
            return
        self._received = b""
        self._requests.append((self._since, request))
        if self._transport is not None and not _path(request).startswith(HANGING):
            self._transport.write(_ANSWER)


def _is_whole(request: bytes) -> bool:
    head_end = request.find(_HEAD_END)
    if head_end < 0:
        return False
    length = int(_header(request[:head_end], _LENGTH))
    return len(request) >= head_end + len(_HEAD_END) + length


def _path(request: bytes) -> str:
    return request.split(b" ", 2)[1].decode()


def _arrival(at_ns: int, request: bytes) -> Arrival:
    head, _, body = request.partition(_HEAD_END)
    document = msgspec.json.decode(body)
    sequence = int(_header(head, _SEQUENCE))
    return Arrival(at_ns, _path(request), document["job_id"], sequence)


def _header(head: bytes, name: bytes) -> bytes:
    lowered = head.lower()
    at = lowered.index(name) + len(name)
    end = lowered.find(b"\r", at)
    return head[at : end if end >= 0 else len(head)]
