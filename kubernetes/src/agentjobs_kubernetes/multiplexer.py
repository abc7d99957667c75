"""Many channels, messages and the output of a command over one transport.

Knows nothing of TLS, supervisors or what the streams carry.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from agentjobs_kubernetes.channels import Channel, ChannelClosed, ConnectionLost
from agentjobs_kubernetes.frames import (
    CREDIT_FIELD,
    MAX_MESSAGE_BYTES,
    OFFSET_FIELD,
    Frame,
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_frame,
)

# Channels that the peer opened, and what all channels together hold unread. One more is closed.
MAX_PEER_CHANNELS = 512
MAX_UNREAD_BYTES = 64 * 1024 * 1024


class Handler(Protocol):
    """What is not a stream. Raises ProtocolError for what the peer must not send."""

    def on_message(self, payload: bytes) -> None: ...

    def on_output(self, offset: int, data: bytes) -> None: ...

    def on_ack(self, offset: int) -> None: ...

    def on_open(self, channel: Channel, request: bytes) -> None: ...

    def on_lost(self, error: ConnectionLost) -> None: ...


class Connection(asyncio.Protocol):
    """One end. `first_channel` is 2 for a worker and 1 for a supervisor."""

    def __init__(self, handler: Handler, first_channel: int = 2) -> None:
        self.unread_bytes = 0
        # When something last arrived, by the event loop's clock.
        self.last_received = 0.0
        self._handler = handler
        self._next_channel = first_channel
        self._channels: dict[int, Channel] = {}
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._error: ConnectionLost | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    def send_message(self, message: Mapping[str, Any]) -> None:
        """Raises ValueError if it is too long."""
        payload = msgspec.json.encode(message)
        if len(payload) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(payload)} bytes is too long")
        self.send(FrameType.MESSAGE, 0, payload)

    def send_output(self, offset: int, data: bytes) -> None:
        self.send(FrameType.OUTPUT, 0, OFFSET_FIELD.pack(offset) + data)

    def send_ack(self, offset: int) -> None:
        self.send(FrameType.ACK, 0, OFFSET_FIELD.pack(offset))

    def open(self, request: Mapping[str, Any]) -> Channel:
        """Raises ConnectionLost."""
        if self._error is not None:
            raise self._error
        channel = Channel(self, self._next_channel)
        self._channels[channel.number] = channel
        self._next_channel += 2
        self.send(FrameType.OPEN, channel.number, msgspec.json.encode(request))
        return channel

    def send(self, type: FrameType, channel: int = 0, payload: bytes = b"") -> None:
        """Does nothing when the connection is lost: the handler and each channel know it."""
        if self._transport is not None and self._error is None:
            self._transport.write(encode_frame(type, channel, payload))

    async def drained(self) -> None:
        """Wait until the transport wants more. Raises ConnectionLost."""
        await self._drained.wait()
        if self._error is not None:
            raise self._error

    def forget(self, channel: Channel) -> bool:
        """False if it was over before."""
        return self._channels.pop(channel.number, None) is not None

    def fail_channel(self, number: int, reason: str) -> None:
        """The peer says why it is about to close a channel."""
        if (channel := self._channels.pop(number, None)) is not None:
            channel.fail(ChannelClosed(reason))

    def abort(self, reason: str = "the connection was closed") -> None:
        self._lose(ConnectionLost(reason))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._error is not None:
            self._transport.abort()
        self.last_received = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        self.last_received = asyncio.get_running_loop().time()
        try:
            for frame in self._decoder.feed(data):
                if self._error is None:
                    self._receive(frame)
        except ProtocolError as error:
            self._lose(ConnectionLost(f"the peer broke the protocol: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(ConnectionLost(f"the connection was lost: {exc or 'the peer closed it'}"))

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def _receive(self, frame: Frame) -> None:
        match frame.type:
            case FrameType.MESSAGE:
                self._handler.on_message(frame.payload)
            case FrameType.OPEN:
                self._accept(frame)
            case FrameType.OUTPUT:
                offset = OFFSET_FIELD.unpack_from(frame.payload)[0]
                self._handler.on_output(offset, frame.payload[OFFSET_FIELD.size :])
            case FrameType.ACK:
                self._handler.on_ack(OFFSET_FIELD.unpack(frame.payload)[0])
            case _:
                # A frame for an unknown channel was sent before the peer knew of its end.
                if (channel := self._channels.get(frame.channel)) is not None:
                    self._pass_to(channel, frame)

    def _pass_to(self, channel: Channel, frame: Frame) -> None:
        match frame.type:
            case FrameType.DATA:
                channel.receive(frame.payload)
                if self.unread_bytes > MAX_UNREAD_BYTES:
                    channel.close()
            case FrameType.END:
                channel.receive_end()
            case FrameType.CREDIT:
                channel.receive_credit(CREDIT_FIELD.unpack(frame.payload)[0])
            case _:
                self.forget(channel)
                channel.fail(ChannelClosed("the peer closed the channel"))

    def _accept(self, frame: Frame) -> None:
        if frame.channel % 2 == self._next_channel % 2 or frame.channel in self._channels:
            raise ProtocolError(f"the peer opened channel {frame.channel}, which is not free")
        channel = Channel(self, frame.channel)
        self._channels[frame.channel] = channel
        opened_by_peer = sum(number % 2 == frame.channel % 2 for number in self._channels)
        if opened_by_peer > MAX_PEER_CHANNELS:
            channel.close()
        else:
            self._handler.on_open(channel, frame.payload)

    def _lose(self, error: ConnectionLost) -> None:
        if self._error is not None:
            return
        self._error = error
        if self._transport is not None:
            self._transport.abort()
        self._drained.set()
        for channel in self._channels.values():
            channel.fail(error)
        self._channels.clear()
        self._handler.on_lost(error)
