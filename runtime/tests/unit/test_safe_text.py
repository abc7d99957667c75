"""Text from outside: safe to store, to send and to print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime import safe_text


def test_what_no_database_stores_is_replaced() -> None:
    assert safe_text.replace_unstorable("a\x00b\ud800c") == "a\ufffdb?c"


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain", "plain"),
        ("[31m is not an escape sequence", "[31m is not an escape sequence"),
    ],
)
def test_escape_sequences_are_removed(text: str, stripped: str) -> None:
    assert safe_text.strip_escape_sequences(text) == stripped


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("one\ttwo\r\nthree", "one\ttwo\nthree"),
        ("no-break\u00a0space", "no-break space"),
        ("\ufeffbyte order mark", "byte order mark"),
        ("bell\x07, zero\u200bwidth, turned\u202e", "bell, zerowidth, turned"),
    ],
)
def test_control_characters_are_stripped_and_lines_kept(text: str, stripped: str) -> None:
    assert safe_text.strip_control_characters(text) == stripped


@given(st.text(st.characters(), max_size=40))
def test_a_single_line_is_printable_whatever_it_was_made_of(text: str) -> None:
    line = safe_text.single_line(text)
    assert line.isprintable()
    assert line == line.strip()


def test_unprintable_characters_are_masked_or_escaped() -> None:
    assert safe_text.mask_unprintable("a\nb\x1b") == "a?b?"
    assert safe_text.escape_unprintable("a\nb\x1b\u202e") == r"a\nb\x1b\u202e"


@given(st.text(max_size=40), st.integers(8, 60))
def test_truncated_text_fits_and_says_that_it_was_cut(text: str, max_bytes: int) -> None:
    truncated = safe_text.truncate_bytes(text, max_bytes, " [cut]")
    assert len(truncated.encode()) <= max_bytes
    assert truncated == text or truncated.endswith(" [cut]")


def test_an_ellipsis_counts_as_a_character() -> None:
    assert safe_text.ellipsize("abcde", 5) == "abcde"
    assert safe_text.ellipsize("abcdef", 5) == "abcd…"
