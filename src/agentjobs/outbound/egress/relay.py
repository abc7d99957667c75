"""Two connections joined: bytes both ways as fast as the slower side takes them, until both end.

Knows nothing of what the bytes mean. One side's end is passed on; the other may go on speaking.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agentjobs.outbound.guard.dial import Streams

CHUNK_BYTES = 64 * 1024
# For a side that does not read the last bytes it was sent.
FLUSH_SECONDS = 5


async def relay(one: Streams, other: Streams) -> None:
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass_on(one[0], other[1]))
            both.create_task(_pass_on(other[0], one[1]))
    except* OSError:
        pass  # Either side's trouble ends both, and is nobody else's.


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()


@contextlib.asynccontextmanager
async def ending(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Closes it: when all that was written has arrived, or at once after an error or a cancel."""
    try:
        yield
        writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await pump(reader, writer)
    if not writer.is_closing():
        writer.write_eof()
