"""A channel as a transport: protocols of a sandbox's ports serve the connections of a pod."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from agentjobs_kubernetes.channels import Channel, ConnectionLost
from agentjobs_kubernetes.connection import OnPort
from agentjobs_worker.sandbox.protocol import SandboxPort

HIGH_WATER_BYTES = 64 * 1024
# How long the client may take to close its side after ours.
LINGER_SECONDS = 30.0


def serve_ports(ports: Iterable[SandboxPort]) -> OnPort:
    """Each connection of the agent gets a protocol of its port."""
    protocols = {port.number: port.protocol for port in ports}

    def serve(channel: Channel, address: tuple[str, int]) -> None:
        protocol = protocols.get(address[1])
        if protocol is None:
            channel.close()
        else:
            ChannelTransport(channel, protocol(), address).start()

    return serve


class ChannelTransport(asyncio.Transport):
    """`address` is what the client connected to."""

    def __init__(
        self, channel: Channel, protocol: asyncio.BaseProtocol, address: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": address, "peername": ("127.0.0.1", 0)})
        self._channel = channel
        self._protocol = cast("asyncio.Protocol", protocol)
        self._buffer = bytearray()
        self._written = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_paused = False
        self._closing = asyncio.Event()
        self._has_eof = False
        self._is_lost = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._protocol.connection_made(self)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._write())]
        for task in self._tasks:
            task.add_done_callback(self._on_end)

    def write(self, data: Any) -> None:
        if self._has_eof:
            return
        self._buffer += data
        self._written.set()
        if len(self._buffer) > HIGH_WATER_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        self._has_eof = True
        self._written.set()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_reading(self) -> bool:
        return self._may_read.is_set() and not self._closing.is_set()

    def is_closing(self) -> bool:
        return self._closing.is_set()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def close(self) -> None:
        """Closes when everything that was written has been sent."""
        if not self._closing.is_set():
            self._closing.set()
            self.write_eof()
            self._may_read.set()

    def abort(self) -> None:
        if self._is_lost:
            # What was written before the end is still on its way to the client.
            return
        self._closing.set()
        self._buffer.clear()
        self._channel.close()
        asyncio.get_running_loop().call_soon(self._lose, None)

    async def _read(self) -> None:
        try:
            while data := await self._channel.read():
                await self._may_read.wait()
                if not self._closing.is_set():
                    self._protocol.data_received(data)
            await self._may_read.wait()
            if not self._closing.is_set() and not self._protocol.eof_received():
                self.close()
        except ConnectionLost as error:
            self._fail(error)

    async def _write(self) -> None:
        try:
            while await self._has_data():
                data = bytes(self._buffer[:HIGH_WATER_BYTES])
                await self._channel.write(data)
                del self._buffer[: len(data)]
                self._resume_writing()
            self._channel.end()
        except ConnectionLost as error:
            self._fail(error)
        else:
            await self._closing.wait()
            await self._linger()

    async def _has_data(self) -> bool:
        """False when everything before the end was written."""
        while not self._buffer and not self._has_eof:
            self._written.clear()
            await self._written.wait()
        return bool(self._buffer)

    def _resume_writing(self) -> None:
        if self._is_paused and len(self._buffer) <= HIGH_WATER_BYTES // 4:
            self._is_paused = False
            self._protocol.resume_writing()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = "a connection of an agent failed"
            task.get_loop().call_exception_handler({"message": message, "exception": error})
            self.abort()

    async def _linger(self) -> None:
        """A channel that is closed at once could lose what the client has not read."""
        if self._is_lost:
            return
        self._lose(None)
        await asyncio.wait(self._tasks[:1], timeout=LINGER_SECONDS)
        self._channel.close()

    def _fail(self, error: ConnectionLost) -> None:
        is_expected = self._closing.is_set()
        self._lose(None if is_expected else ConnectionResetError(str(error)))

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._closing.set()
            self._has_eof = True
            self._written.set()
            self._may_read.set()
            self._protocol.connection_lost(error)
