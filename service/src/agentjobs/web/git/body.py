"""Request bodies as bounded streams, decompressed if necessary."""

import asyncio
import tempfile
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agentjobs_runtime.problems import Problem

_PIECE_BYTES = 64 * 1024
_GZIP_WINDOW = 31
_MAX_MEMORY_BYTES = 1024 * 1024
# Takes about a millisecond, after which other tasks may run.
_PIECES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Body:
    """`pieces` is what git reads; `received` is the raw body, to be drained.

    `size_bytes` is known of a body that was received completely.
    """

    pieces: AsyncIterator[bytes]
    received: AsyncIterator[bytes]
    size_bytes: int | None = None

    def after(self, first: bytes) -> "Body":
        """The whole body, after `first` was already read."""
        return Body(_prepend(first, self.pieces), self.received)


@asynccontextmanager
async def spool(body: Body, directory: Path, idle_seconds: float) -> AsyncIterator[Body]:
    """The body after it was received completely, in memory or in a file without a name.

    Raises TimeoutError if nothing arrives for `idle_seconds`.
    """
    with tempfile.SpooledTemporaryFile(_MAX_MEMORY_BYTES, dir=str(directory)) as file:
        async with asyncio.timeout(idle_seconds) as idle:
            async for piece in body.pieces:
                await asyncio.to_thread(file.write, piece)
                idle.reschedule(asyncio.get_running_loop().time() + idle_seconds)
            async for _ in body.received:
                idle.reschedule(asyncio.get_running_loop().time() + idle_seconds)
        size_bytes = file.tell()
        file.seek(0)
        # The second one is empty by then.
        pieces = _read_pieces(file)
        yield Body(pieces, pieces, size_bytes)


async def _read_pieces(file: tempfile.SpooledTemporaryFile[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
        yield piece


async def receive_pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


async def gunzip(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Keeps at most one decompressed piece in memory, whatever the compression ratio."""
    decompressor = zlib.decompressobj(_GZIP_WINDOW)
    piece_count = 0
    async for received in pieces:
        compressed = received
        while compressed:
            if decompressor.eof:
                raise _invalid_gzip("data follows the end of the stream")
            try:
                piece = decompressor.decompress(compressed, _PIECE_BYTES)
            except zlib.error:
                raise _invalid_gzip("it cannot be decompressed") from None
            compressed = decompressor.unconsumed_tail or decompressor.unused_data
            if piece:
                yield piece
            piece_count += 1
            if piece_count % _PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)
    if not decompressor.eof:
        raise _invalid_gzip("it is incomplete")


async def limit_size(max_bytes: int, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise Problem("payload_too_large", f"The body is larger than {max_bytes} bytes.")
        yield piece


async def _prepend(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _invalid_gzip(reason: str) -> Problem:
    return Problem("bad_request", f"The gzip body is damaged: {reason}.")
