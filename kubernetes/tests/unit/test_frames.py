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
    Frame(FrameType.MESSAGE, b'{"type":"ping"}'),
    Frame(FrameType.DATA, bytes(300)),
    Frame(FrameType.DATA, b""),
    Frame(FrameType.OUTPUT, bytes(8) + b"line\n"),
]
STREAM = b"".join(encode_frame(*frame) for frame in FRAMES)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_frames_are_the_same_however_the_stream_is_divided(cuts: list[int]) -> None:
    decoder = FrameDecoder()
    ends = [*sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [frame for piece in pieces for frame in decoder.feed(piece)] == FRAMES


def test_the_header_is_a_type_and_a_length_in_network_order() -> None:
    assert encode_frame(FrameType.DATA, b"abc") == b"\x01\x00\x00\x00\x03abc"


@pytest.mark.parametrize(
    ("number", "length"),
    [
        *((0, 0), (0, MAX_MESSAGE_BYTES + 1), (1, MAX_DATA_BYTES + 1)),
        *((2, 7), (2, MAX_DATA_BYTES + 9), (3, 0), (255, 0)),
    ],
)
def test_a_frame_of_a_wrong_size_or_type_is_refused_before_its_payload(
    number: int, length: int
) -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(struct.pack(">BI", number, length)))


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    decoder = FrameDecoder()
    try:
        frames = list(decoder.feed(data))
    except ProtocolError:
        return
    assert data.startswith(b"".join(encode_frame(*frame) for frame in frames))
