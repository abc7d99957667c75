"""A connection of the agent to one of its ports, which a protocol of the sandbox serves."""

import asyncio
from typing import Any, cast

from agentjobs_kubernetes.frames import (
    END_OF_DATA,
    Frame,
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_data,
)

# How long the client may take to close its side after ours.
LINGER_SECONDS = 30.0


class PortConnection(asyncio.Transport, asyncio.Protocol):
    """The protocol of a connection to the supervisor, and the transport of `protocol`.

    `address` is what the client connected to. `closed` is done when the connection is over.
    """

    def __init__(self, protocol: asyncio.BaseProtocol, address: tuple[str, int]) -> None:
        super().__init__({"sockname": address, "peername": ("127.0.0.1", 0)})
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._protocol = cast("asyncio.Protocol", protocol)
        self._decoder = FrameDecoder()
        self._connection: asyncio.Transport
        self._has_ended = False
        self._has_peer_ended = False
        self._is_closing = False
        self._is_lost = False

    def start(self) -> None:
        """Called when the supervisor knows what the connection is for."""
        self._protocol.connection_made(self)

    # What arrives.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._receive(frame)
        except ProtocolError:
            self._connection.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        is_expected = self._is_closing or (self._has_ended and self._has_peer_ended)
        reason = f"the connection was lost: {exc or 'the peer closed it'}"
        self._lose(None if is_expected else ConnectionResetError(reason))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _receive(self, frame: Frame) -> None:
        if frame.type is not FrameType.DATA or self._has_peer_ended:
            raise ProtocolError("it sent no data")
        if not frame.payload:
            self._has_peer_ended = True
            if self._is_closing:
                self._connection.close()
            elif not self._protocol.eof_received():
                self.close()
        elif not self._is_closing:
            self._protocol.data_received(frame.payload)

    # What the protocol does.

    def write(self, data: Any) -> None:
        if not self._has_ended:
            for frame in encode_data(bytes(data)):
                self._connection.write(frame)

    def write_eof(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._connection.write(END_OF_DATA)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._connection.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._connection.resume_reading()

    def is_reading(self) -> bool:
        return self._connection.is_reading()

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def close(self) -> None:
        """A connection that is closed at once could lose what the client has not read."""
        if self._is_closing:
            return
        self._is_closing = True
        self.write_eof()
        self._connection.resume_reading()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._lose, None)
        if self._has_peer_ended:
            self._connection.close()
        else:
            loop.call_later(LINGER_SECONDS, self._connection.abort)

    def abort(self) -> None:
        # What was written before the end is still on its way to the client.
        if not self._is_lost:
            self._is_closing = True
            self._connection.abort()

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(error)
