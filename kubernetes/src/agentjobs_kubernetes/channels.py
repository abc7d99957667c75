"""Streams over a shared connection, each with its own flow control.

The peer may send what it has credit for, so a slow reader costs at most one window of memory and
delays no other. Knows nothing of what the streams carry.
"""

import asyncio
from collections import deque
from typing import Protocol

from agentjobs_kubernetes.frames import (
    CREDIT_FIELD,
    MAX_DATA_BYTES,
    FrameType,
    ProtocolError,
)

WINDOW_BYTES = 1024 * 1024
# Credit is returned in portions, not for every read.
CREDIT_PORTION_BYTES = WINDOW_BYTES // 4


class ConnectionLost(Exception):
    """The connection has ended, and all its channels with it."""


class ChannelClosed(ConnectionLost):
    """The peer closed this channel before its end; the connection stays open."""


class Carrier(Protocol):
    """The connection, as its channels see it. `unread_bytes` are those of all of them."""

    unread_bytes: int

    def send(self, type: FrameType, channel: int = 0, payload: bytes = b"") -> None: ...

    async def drained(self) -> None: ...

    def forget(self, channel: "Channel") -> bool: ...


class Channel:
    def __init__(self, connection: Carrier, number: int) -> None:
        self.number = number
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._readable = asyncio.Event()
        self._unread_bytes = 0
        self._consumed_bytes = 0
        self._has_peer_ended = False
        self._sendable = asyncio.Event()
        self._credit = WINDOW_BYTES
        self._sendable.set()
        self._is_ended = False
        self._error: ConnectionLost | None = None

    async def read(self, limit: int = MAX_DATA_BYTES) -> bytes:
        """Empty when the peer has ended the stream. Raises ConnectionLost."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._has_peer_ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        chunk = self._chunks.popleft()
        if len(chunk) > limit:
            self._chunks.appendleft(chunk[limit:])
            chunk = chunk[:limit]
        self._consume(len(chunk))
        return chunk

    async def write(self, data: bytes) -> None:
        """Waits until the peer takes it. Raises ConnectionLost."""
        rest = memoryview(data)
        while rest:
            await self._connection.drained()
            if self._credit == 0 and self._error is None:
                self._sendable.clear()
                await self._sendable.wait()
                continue
            if self._error is not None:
                raise self._error
            size = min(len(rest), self._credit, MAX_DATA_BYTES)
            self._credit -= size
            self._connection.send(FrameType.DATA, self.number, bytes(rest[:size]))
            rest = rest[size:]

    def end(self) -> None:
        """Nothing more will be written; what the peer sends can still be read."""
        if not self._is_ended and self._error is None:
            self._is_ended = True
            self._connection.send(FrameType.END, self.number)
            self._forget_if_over()

    def close(self) -> None:
        """End both directions at once, unless both have ended."""
        if self._connection.forget(self):
            self._connection.send(FrameType.CLOSE, self.number)
        self.fail(ChannelClosed("the channel was closed"))

    def receive(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        self._connection.unread_bytes += len(data)
        if self._has_peer_ended or self._unread_bytes + self._consumed_bytes > WINDOW_BYTES:
            raise ProtocolError("the peer sent more than it had credit for")
        if data:
            self._chunks.append(data)
            self._readable.set()

    def receive_end(self) -> None:
        self._has_peer_ended = True
        self._readable.set()
        self._forget_if_over()

    def receive_credit(self, size: int) -> None:
        self._credit += size
        self._sendable.set()

    def fail(self, error: ConnectionLost) -> None:
        """Drops what was not read."""
        if self._error is None:
            self._error = error
        self._connection.unread_bytes -= self._unread_bytes
        self._unread_bytes = 0
        self._chunks.clear()
        self._readable.set()
        self._sendable.set()

    def _consume(self, size: int) -> None:
        self._unread_bytes -= size
        self._connection.unread_bytes -= size
        self._consumed_bytes += size
        if self._consumed_bytes >= CREDIT_PORTION_BYTES and not self._has_peer_ended:
            self._connection.send(
                FrameType.CREDIT, self.number, CREDIT_FIELD.pack(self._consumed_bytes)
            )
            self._consumed_bytes = 0

    def _forget_if_over(self) -> None:
        if self._is_ended and self._has_peer_ended:
            self._connection.forget(self)
