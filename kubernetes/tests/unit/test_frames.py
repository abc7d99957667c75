"""Frames survive any division of the stream; what is too large is refused by its header."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_kubernetes.frames import (
    MAX_DATA_BYTES,
    MAX_MESSAGE_BYTES,
    Frame,
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_frame,
)

FRAMES = [
    Frame(FrameType.MESSAGE, 0, b'{"type":"ping"}'),
    Frame(FrameType.OPEN, 2, b'{"kind":"connect"}'),
    Frame(FrameType.DATA, 2, bytes(300)),
    Frame(FrameType.DATA, 2**32 - 1, b""),
    Frame(FrameType.CREDIT, 2, b"\0\0\0\1"),
    Frame(FrameType.OUTPUT, 0, bytes(8) + b"line\n"),
    Frame(FrameType.ACK, 0, bytes(8)),
    Frame(FrameType.END, 2, b""),
    Frame(FrameType.CLOSE, 3, b""),
]
STREAM = b"".join(encode_frame(*frame) for frame in FRAMES)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_frames_are_the_same_however_the_stream_is_divided(cuts: list[int]) -> None:
    decoder = FrameDecoder()
    ends = [*sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [frame for piece in pieces for frame in decoder.feed(piece)] == FRAMES


def test_the_header_is_a_type_a_channel_and_a_length_in_network_order() -> None:
    encoded = encode_frame(FrameType.DATA, 0x01020304, b"abc")
    assert encoded == b"\x02\x01\x02\x03\x04\x00\x00\x00\x03abc"


@pytest.mark.parametrize(
    ("number", "length"),
    [
        (0, 0),
        (0, MAX_MESSAGE_BYTES + 1),
        (1, MAX_DATA_BYTES + 1),
        (2, MAX_DATA_BYTES + 1),
        (3, 1),
        (4, 1),
        (5, 3),
        (6, 7),
        (6, MAX_DATA_BYTES + 9),
        (7, 9),
        (8, 0),
        (255, 0),
    ],
)
def test_a_frame_of_a_wrong_size_or_type_is_refused_before_its_payload(
    number: int, length: int
) -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(struct.pack(">BII", number, 0, length)))


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    decoder = FrameDecoder()
    try:
        frames = list(decoder.feed(data))
    except ProtocolError:
        return
    assert data.startswith(b"".join(encode_frame(*frame) for frame in frames))
