"""Copies bytes from one connection to another with backpressure, until the end.

The end of one side is passed on; the other side may continue to send.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

_CHUNK_HEAD = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_MAX_CHUNK_HEAD = 10
CHUNK_BYTES = 64 * 1024
# How long to wait for a side that does not read its last bytes.
FLUSH_SECONDS = 5


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()


class Buffer:
    """Bytes that were read from one side and not yet sent to the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.data = b""
        self.reader = reader
        self.writer = writer

    async def fill(self) -> bool:
        """False at the end."""
        chunk = await self.reader.read(CHUNK_BYTES)
        self.data += chunk
        return bool(chunk)

    def take(self, count: int) -> bytes:
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    async def copy_body(self, body_bytes: int | None) -> None:
        """Sends the body of an HTTP request and nothing after it; None for a body in chunks."""
        rest, is_last = body_bytes or 0, body_bytes is not None
        while True:
            while not is_last and (head := _CHUNK_HEAD.match(self.data, rest)):
                size = int(head[1], 16)
                rest, is_last = head.end() + size + len(b"\r\n"), size == 0
            if not is_last and len(self.data) - rest > _MAX_CHUNK_HEAD:
                self.writer.transport.abort()
                return
            sent = self.take(rest)
            self.writer.write(sent)
            await self.writer.drain()
            rest -= len(sent)
            if (is_last and not rest) or not await self.fill():
                break
        while await self.reader.read(CHUNK_BYTES):
            pass  # Another request could be for another host.
        if not self.writer.is_closing():
            self.writer.write_eof()


@contextlib.asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Closes the writer once its data is flushed, or at once after an error or cancellation."""
    try:
        yield
        writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


async def copy_to_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await copy(reader, writer)
    if not writer.is_closing():
        writer.write_eof()
