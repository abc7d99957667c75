"""One connection to a supervisor, as a stream of bytes in each direction, or of frames."""

import asyncio
import contextlib
from collections import deque

from agentjobs_kubernetes.frames import (
    END_OF_DATA,
    Frame,
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_data,
    encode_frame,
)
from agentjobs_kubernetes.messages import Failed, decode_message

READ_BYTES = 256 * 1024


class ConnectionLost(Exception):
    """A connection has ended, and with the first one of a worker all others."""


class RequestFailed(Exception):
    """The supervisor could not do it; the message says why."""


class Stream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._frames: deque[Frame] = deque()

    async def next_frame(self) -> Frame:
        """Raises ConnectionLost."""
        while not self._frames:
            try:
                data = await self._reader.read(READ_BYTES)
                self._frames.extend(self._decoder.feed(data))
            except (OSError, ProtocolError) as error:
                raise ConnectionLost(f"the connection was lost: {error}") from None
            if not data:
                raise ConnectionLost("the connection was lost: the peer closed it")
        return self._frames.popleft()

    async def read(self) -> bytes:
        """Empty when the peer has ended the stream. Raises RequestFailed and ConnectionLost."""
        frame = await self.next_frame()
        if frame.type is FrameType.DATA:
            return frame.payload
        with contextlib.suppress(ProtocolError):
            message = decode_message(frame.payload)
            if isinstance(message, Failed):
                raise RequestFailed(message.reason or "the supervisor gave no reason")
        raise ConnectionLost("the peer broke the protocol: it sent no data")

    async def write(self, data: bytes) -> None:
        """Waits until the peer takes it. Raises ConnectionLost."""
        try:
            for frame in encode_data(data):
                self._writer.write(frame)
                await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(f"the connection was lost: {error}") from None

    def send_message(self, payload: bytes) -> None:
        self._writer.write(encode_frame(FrameType.MESSAGE, payload))

    def end(self) -> None:
        """Nothing more will be written; what the peer sends can still be read."""
        self._writer.write(END_OF_DATA)

    def close(self) -> None:
        """Drops what was not sent or read."""
        self._writer.transport.abort()
