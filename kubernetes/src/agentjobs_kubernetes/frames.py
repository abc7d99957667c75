"""Frames of the connections between a worker and a supervisor: bytes in, frames out, and back.

Knows sizes, not meanings. A peer that exceeds a size is cut off before its payload is kept.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

MAX_DATA_BYTES = 64 * 1024
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
OFFSET_FIELD = struct.Struct(">Q")

_HEADER = struct.Struct(">BI")


class ProtocolError(Exception):
    """The peer does not speak this protocol; the connection is of no more use."""


class FrameType(IntEnum):
    MESSAGE = 0
    # Without a payload, it is the end of the sender's data.
    DATA = 1
    OUTPUT = 2


class Frame(NamedTuple):
    type: FrameType
    payload: bytes


_SIZES = {
    FrameType.MESSAGE: (2, MAX_MESSAGE_BYTES),
    FrameType.DATA: (0, MAX_DATA_BYTES),
    FrameType.OUTPUT: (OFFSET_FIELD.size, OFFSET_FIELD.size + MAX_DATA_BYTES),
}
END_OF_DATA = _HEADER.pack(FrameType.DATA, 0)


def encode_frame(type: FrameType, payload: bytes) -> bytes:
    return _HEADER.pack(type, len(payload)) + payload


def encode_data(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), MAX_DATA_BYTES):
        yield encode_frame(FrameType.DATA, data[start : start + MAX_DATA_BYTES])


class FrameDecoder:
    """Keeps at most one incomplete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields each frame that is complete now. Raises ProtocolError."""
        self._buffer += data
        position = 0
        try:
            while len(self._buffer) - position >= _HEADER.size:
                kind, length = _header(self._buffer, position)
                end = position + _HEADER.size + length
                if len(self._buffer) < end:
                    return
                payload = bytes(memoryview(self._buffer)[position + _HEADER.size : end])
                position = end
                yield Frame(kind, payload)
        finally:
            del self._buffer[:position]


def _header(buffer: bytearray, position: int) -> tuple[FrameType, int]:
    number, length = _HEADER.unpack_from(buffer, position)
    try:
        kind = FrameType(number)
    except ValueError:
        raise ProtocolError(f"there is no frame of type {number}") from None
    minimum, maximum = _SIZES[kind]
    if not minimum <= length <= maximum:
        raise ProtocolError(f"a frame of type {kind.name} has {length} bytes")
    return kind, length
