"""Keep-alive connections that send the next request after each response and count the responses.

Cheap by design: requests are prepared bytes, and only the status and the length of a response are
parsed.
"""

import asyncio
import functools
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import uvloop

WARM_UP_SECONDS = 0.3
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(frozen=True)
class Load:
    """`requests` has a list per connection, which is sent repeatedly."""

    port: int
    requests: Sequence[Sequence[bytes]]
    status: int
    seconds: float


class Throughput(NamedTuple):
    """`load_share` is how much of a core this process used; near 1, it was the bottleneck."""

    per_second: float
    load_share: float


def run_load(load: Load) -> Throughput:
    """Raises if a response has another status than expected."""
    return uvloop.run(_run(load))


async def _run(load: Load) -> Throughput:
    loop = asyncio.get_running_loop()
    connections: list[_Connection] = []
    for requests in load.requests:
        new_connection = functools.partial(_Connection, requests, load.status)
        connections.append(
            (await loop.create_connection(new_connection, "127.0.0.1", load.port))[1]
        )
    await asyncio.sleep(WARM_UP_SECONDS)
    before, started, cpu = _answers(connections), time.perf_counter(), time.process_time()
    await asyncio.sleep(load.seconds)
    answers, used = _answers(connections) - before, time.process_time() - cpu
    elapsed = time.perf_counter() - started
    for connection in connections:
        connection.leave()
    if surprises := [one.surprise for one in connections if one.surprise]:
        raise RuntimeError(f"unexpected answer: {surprises[0]!r}")
    return Throughput(answers / elapsed, used / elapsed)


def _answers(connections: Iterable["_Connection"]) -> int:
    return sum(connection.answers for connection in connections)


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Sequence[bytes], status: int) -> None:
        self.answers = 0
        self.surprise = b""
        self._requests = itertools.cycle(requests)
        self._begin = b"HTTP/1.1 %d " % status
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_HEAD_END)
        if head_end < 0:
            return
        at = self._received.find(_LENGTH) + len(_LENGTH)
        length = int(self._received[at : self._received.index(b"\r", at)])
        if len(self._received) < head_end + len(_HEAD_END) + length:
            return
        if not self._received.startswith(self._begin):
            self.surprise = self._received
            return
        self._received = b""
        self.answers += 1
        if self._transport is not None:
            self._transport.write(next(self._requests))

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None and not self.surprise:
            self.surprise = f"the connection was closed: {error}".encode()

    def leave(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
