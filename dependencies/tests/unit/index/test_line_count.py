"""Counting lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_dependencies.index.analysis import LineCounter, count_lines


@pytest.mark.parametrize(
    ("blob", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"one", 1),
        (b"one\n", 1),
        (b"one\ntwo", 2),
        (b"one\r\ntwo\r\n", 2),
        (b"one\rtwo", 1),
        (b"\xff\xfe no text encoding\n", 1),
        (b"a" * 7_999 + b"\0", None),
        (b"a" * 8_000 + b"\0\n", 1),
        (b"\0", None),
    ],
)
def test_lines_end_with_a_newline_or_the_file_and_binaries_have_none(
    blob: bytes, lines: int | None
) -> None:
    assert count_lines(blob) == lines


@given(st.binary(max_size=50), st.lists(st.integers(0, 50), max_size=5))
def test_the_count_does_not_depend_on_how_the_file_is_split(blob: bytes, cuts: list[int]) -> None:
    blob = blob * 400
    counter = LineCounter()
    edges = [0, *sorted(cut * 200 for cut in cuts), len(blob)]
    for start, end in pairwise(edges):
        counter.add(blob[start:end])
    assert counter.lines == count_lines(blob)
