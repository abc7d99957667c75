"""A way into the pod of a service, over the connection of its run."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from agentjobs_kubernetes.connection import Supervisor
from agentjobs_kubernetes.messages import Existence, Ports
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed, Stream
from agentjobs_runtime.sandboxes.directories import REPORT_DIRECTORY, RUN_DIRECTORY
from agentjobs_worker.sandbox.protocol import SandboxPort

_CHUNK_BYTES = 64 * 1024


class RunningPod:
    """`current` is the connection of the moment: a lost one is replaced. Raises OSError."""

    def __init__(self, current: Callable[[], Supervisor]) -> None:
        self._current = current
        self._is_closed = False

    async def listening_ports(self) -> list[int]:
        with _as_os_error():
            reply = await self._supervisor().request({"type": "list_ports"}, Ports)
        return sorted(reply.ports)

    async def has_reported(self, name: str) -> bool:
        path = str(RUN_DIRECTORY / REPORT_DIRECTORY / name)
        with _as_os_error():
            reply = await self._supervisor().request({"type": "exists", "path": path}, Existence)
        return reply.exists

    def port(self, number: int) -> SandboxPort:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with _as_os_error():
                    async with self._supervisor().open("connect", port=number) as stream:
                        await _relay(stream, reader, writer)
            except OSError:
                writer.transport.abort()

        def protocol() -> asyncio.BaseProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(_CHUNK_BYTES), relay)

        return SandboxPort(number=number, protocol=protocol)

    def close(self) -> None:
        self._is_closed = True

    def _supervisor(self) -> Supervisor:
        if self._is_closed:
            raise ConnectionLost("the way into the sandbox is closed")
        return self._current()


async def _relay(
    stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy bytes until both sides have ended. Raises RequestFailed, ConnectionLost and OSError."""

    async def send() -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await stream.write(data)
        stream.end()

    sending = asyncio.ensure_future(send())
    try:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        await sending
        writer.close()
    finally:
        sending.cancel()
        await asyncio.wait({sending})


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (ConnectionLost, RequestFailed) as error:
        raise ConnectionError(str(error)) from error
