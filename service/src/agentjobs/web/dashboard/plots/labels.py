"""Texts in drawings: escaped, without invisible characters, and as wide as their place."""

import unicodedata
from html import escape

from agentjobs.web.dashboard.text.visible_text import visible


def escape_text(text: str) -> str:
    return escape(text, quote=True)


def clean(text: str) -> str:
    """Shows text in one line, with invisible characters escaped."""
    return visible(text).replace("\n", " ")


def text_width(text: str) -> int:
    """The width in characters of a monospace font."""
    return sum(map(_letter_width, text))


def shorten(text: str, max_width: int) -> str:
    """Replaces the middle with an ellipsis if the text is wider than `max_width` characters.

    Keeps more of the end, such as the name of a file.
    """
    if text_width(text) <= max_width:
        return text
    head, tail, left = "", "", max_width - 1
    while left > 0:
        # Two characters from the end for each one from the start.
        take_head = len(head) * 2 < len(tail)
        letter = text[len(head)] if take_head else text[-len(tail) - 1]
        left -= _letter_width(letter)
        if left < 0:
            break
        head, tail = (head + letter, tail) if take_head else (head, letter + tail)
    return f"{head}…{tail}"


def _letter_width(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
