"""A TCP proxy in front of the database or the platform that can drop or stall its connections."""

import asyncio
import contextlib
import threading


class TcpProxy:
    """Runs on an event loop in a thread. While it stalls, it accepts and forwards nothing."""

    def __init__(self, target_port: int = 0) -> None:
        self.port = 0
        self.target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._drops = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def drop(self) -> None:
        """Close all connections and refuse new ones."""
        self._loop.call_soon_threadsafe(self._drop)

    def stall(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.clear)

    def restore(self) -> None:
        self._loop.call_soon_threadsafe(self._restore)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._flows.set()
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        self._drop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self) -> None:
        self._drops = True
        for writer in self._writers:
            writer.transport.abort()

    def _restore(self) -> None:
        self._drops = False
        self._flows.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        self._writers.add(writer)
        try:
            if self._drops:
                return
            source, upstream = await asyncio.open_connection("127.0.0.1", self.target_port)
            self._writers.add(upstream)
            tasks = [
                asyncio.create_task(self._forward(reader, upstream)),
                asyncio.create_task(self._forward(source, writer)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        except OSError:
            pass  # the server is away
        finally:
            for each in (writer, upstream):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                await self._flows.wait()
                target.write(data)
                await target.drain()
