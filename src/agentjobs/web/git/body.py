"""Request bodies as bounded streams: chunk by chunk, unpacked if need be, never held whole."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from agentjobs.problems import Problem

_PIECE_BYTES = 64 * 1024
_GZIP_WINDOW = 31
# Unpacking them takes about a millisecond, and nothing else makes it pause.
_PIECES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Body:
    """`pieces` are what git reads. `received` is as it came, for who must only let it come."""

    pieces: AsyncIterator[bytes]
    received: AsyncIterator[bytes]

    def after(self, first: bytes) -> "Body":
        """The whole again, when `first` was read already."""
        return Body(_joined(first, self.pieces), self.received)


async def received_pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


async def gunzipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """However small a body is packed, at most a piece of it is in memory at once."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    unpacked = 0
    async for received in pieces:
        packed = received
        while packed:
            if unpacker.eof:
                raise _bad_gzip("data follows its end")
            try:
                piece = unpacker.decompress(packed, _PIECE_BYTES)
            except zlib.error:
                raise _bad_gzip("it cannot be unpacked") from None
            packed = unpacker.unconsumed_tail or unpacker.unused_data
            if piece:
                yield piece
            unpacked += 1
            if unpacked % _PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)
    if not unpacker.eof:
        raise _bad_gzip("its end is missing")


async def at_most(max_bytes: int, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise Problem("payload_too_large", f"The body is larger than {max_bytes} bytes.")
        yield piece


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _bad_gzip(reason: str) -> Problem:
    return Problem("bad_request", f"The gzip body is damaged: {reason}.")
