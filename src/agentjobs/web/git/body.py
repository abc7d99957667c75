"""Request bodies as bounded streams, decompressed if necessary."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agentjobs.problems import Problem

_PIECE_BYTES = 64 * 1024
_GZIP_WINDOW = 31
# Takes about a millisecond, after which other tasks may run.
_PIECES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Body:
    """`pieces` is what git reads; `received` is the raw body, to be drained."""

    pieces: AsyncIterator[bytes]
    received: AsyncIterator[bytes]

    def after(self, first: bytes) -> "Body":
        """The whole body, after `first` was already read."""
        return Body(_prepend(first, self.pieces), self.received)


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
