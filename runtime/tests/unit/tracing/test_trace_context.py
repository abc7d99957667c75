"""The header `traceparent`, as W3C Trace Context defines it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.tracing.trace_context import read_traceparent

TRACE = b"4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = b"00f067aa0ba902b7"
VALID = b"00-" + TRACE + b"-" + SPAN + b"-01"


def test_a_valid_header_is_handed_on_unchanged() -> None:
    assert read_traceparent([VALID]) == VALID.decode()


@pytest.mark.parametrize(
    ("flags", "handed_on"), [(b"00", "00"), (b"03", "03"), (b"ff", "03"), (b"04", "00")]
)
def test_only_known_flags_are_handed_on(flags: bytes, handed_on: str) -> None:
    assert read_traceparent([VALID[:-2] + flags]) == VALID[:-2].decode() + handed_on


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert read_traceparent([b"cc" + VALID[2:]]) == VALID.decode()
    assert read_traceparent([b"cc" + VALID[2:] + b"-what-the-future-will-be-like"]) == (
        VALID.decode()
    )


@pytest.mark.parametrize("value", [VALID + b" ", b"\t" + VALID])
def test_space_around_the_value_does_not_matter(value: bytes) -> None:
    assert read_traceparent([value]) == VALID.decode()


@pytest.mark.parametrize(
    "values",
    [
        [],
        [VALID, VALID],
        [b""],
        [VALID.upper()],
        [VALID + b"-00"],
        [VALID[:-1]],
        [VALID + b"0"],
        [b"ff" + VALID[2:]],
        [b"cc" + VALID[2:] + b"."],
        [b"0x" + VALID[2:]],
        [b"00-" + b"0" * 32 + b"-" + SPAN + b"-01"],
        [b"00-" + TRACE + b"-" + b"0" * 16 + b"-01"],
        [VALID.replace(b"-", b"_")],
        [VALID.replace(b"4bf9", b"4bg9")],
        [VALID.replace(b"4bf9", "\uff14bf9".encode())],
        [b"00-" + TRACE + b"-" + SPAN],
        [b"a" * 100_000],
        [b"cc" + VALID[2:] + b"x" * 100_000],
    ],
)
def test_anything_else_is_ignored(values: list[bytes]) -> None:
    assert read_traceparent(values) is None


@given(st.lists(st.binary(max_size=80), max_size=2))
def test_no_bytes_are_an_error(values: list[bytes]) -> None:
    read_traceparent(values)
