"""Copies bytes from one connection to another with backpressure, until the end.

The end of one side is passed on; the other side may continue to send.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

CHUNK_BYTES = 64 * 1024
# How long to wait for a side that does not read its last bytes.
FLUSH_SECONDS = 5


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()


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
