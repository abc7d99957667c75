"""Both ends of a connection in one process, without a socket."""

import asyncio
from typing import Any

from agentjobs_kubernetes.channels import Channel, ConnectionLost
from agentjobs_kubernetes.multiplexer import Connection

HIGH_WATER_BYTES = 256 * 1024


class MemoryTransport(asyncio.Transport):
    """Delivers to `receiver` in pieces of `piece_bytes`, as a stream may."""

    def __init__(self, sender: Connection, receiver: Connection, piece_bytes: int) -> None:
        super().__init__()
        self._sender = sender
        self._receiver = receiver
        self._piece_bytes = piece_bytes
        self._buffer = bytearray()
        self._is_paused = False
        self._is_closed = False
        self.sent_bytes = 0

    def write(self, data: Any) -> None:
        assert not self._is_closed
        if not self._buffer:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._buffer += data
        self.sent_bytes += len(data)
        if len(self._buffer) > HIGH_WATER_BYTES and not self._is_paused:
            self._is_paused = True
            self._sender.pause_writing()

    def abort(self) -> None:
        self._is_closed = True
        asyncio.get_running_loop().call_soon(self._receiver.connection_lost, None)

    def _deliver(self) -> None:
        if self._is_closed:
            return
        piece = bytes(self._buffer[: self._piece_bytes])
        del self._buffer[: self._piece_bytes]
        self._receiver.data_received(piece)
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._deliver)
        if self._is_paused and not self._buffer:
            self._is_paused = False
            self._sender.resume_writing()


class RecordingHandler:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.output: list[tuple[int, bytes]] = []
        self.acks: list[int] = []
        self.opened: asyncio.Queue[tuple[Channel, bytes]] = asyncio.Queue()
        self.lost: ConnectionLost | None = None

    def on_message(self, payload: bytes) -> None:
        self.messages.append(payload)

    def on_output(self, offset: int, data: bytes) -> None:
        self.output.append((offset, data))

    def on_ack(self, offset: int) -> None:
        self.acks.append(offset)

    def on_open(self, channel: Channel, request: bytes) -> None:
        self.opened.put_nowait((channel, request))

    def on_lost(self, error: ConnectionLost) -> None:
        self.lost = error


class ConnectedPair:
    def __init__(self, piece_bytes: int = 100_000) -> None:
        self.worker_handler = RecordingHandler()
        self.supervisor_handler = RecordingHandler()
        self.worker = Connection(self.worker_handler)
        self.supervisor = Connection(self.supervisor_handler, first_channel=1)
        self.to_supervisor = MemoryTransport(self.worker, self.supervisor, piece_bytes)
        self.to_worker = MemoryTransport(self.supervisor, self.worker, piece_bytes)
        self.worker.connection_made(self.to_supervisor)
        self.supervisor.connection_made(self.to_worker)

    async def open(self) -> tuple[Channel, Channel]:
        """The worker's end and the supervisor's."""
        channel = self.worker.open({"kind": "connect", "port": 1})
        other, _ = await self.supervisor_handler.opened.get()
        return channel, other
