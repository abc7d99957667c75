"""Forwards TCP connections in a thread: to pods, as a load balancer would, and to this machine."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

Address = tuple[str, int]


@contextlib.contextmanager
def relay(host: str, find_target: Callable[[], Address]) -> Iterator[Address]:
    """`find_target` is called for each connection; an OSError of it closes the connection."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            target = await asyncio.to_thread(find_target)
            other_reader, other_writer = await asyncio.open_connection(*target)
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))

    async def start() -> asyncio.Server:
        return await asyncio.start_server(forward, host, 0)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield server.sockets[0].getsockname()
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
