"""Counting lines."""

import pytest

from agentjobs_dependencies.index.analysis import count_lines


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
