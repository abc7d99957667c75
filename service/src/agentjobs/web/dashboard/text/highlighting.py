"""Highlights source code as lines of escaped HTML with short CSS classes.

Returns None for unknown languages and for code that takes too long.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import (
    find_lexer_class_by_name,
    find_lexer_class_for_filename,
)
from pygments.token import STANDARD_TYPES, _TokenType
from pygments.util import ClassNotFound

MAX_CHARACTERS = 256 * 1024
MAX_LINE_LENGTH = 2_000

# Pygments' short token names, or their first letter, to the classes in code.css.
_CLASSES = {
    "kc": "m",
    "kt": "t",
    "k": "k",
    "ow": "k",
    "sd": "c",
    "si": "v",
    "se": "v",
    "s": "s",
    "m": "m",
    "c": "c",
    "ld": "m",
    "nf": "f",
    "fm": "f",
    "na": "f",
    "nc": "t",
    "ne": "t",
    "nb": "b",
    "bp": "v",
    "nd": "b",
    "nt": "k",
    "nv": "v",
    "vc": "v",
    "vg": "v",
    "vi": "v",
    "no": "m",
    "nl": "v",
    "ni": "v",
    "gh": "k",
    "gu": "k",
    "gd": "v",
    "gi": "s",
}
_COLOURLESS = frozenset({"text", "output"})


def language_of_file(path: str) -> Lexer | None:
    return _lexer_for_file(PurePosixPath(path).name[-200:])


@lru_cache(maxsize=256)
def language_named(name: str) -> Lexer | None:
    """Finds a lexer by the info string of a Markdown code fence."""
    if not name or len(name) > 40:
        return None
    try:
        return _new_lexer(find_lexer_class_by_name(name))
    except ClassNotFound:
        return None


def highlight(
    lines: Sequence[str], language: Lexer, *, deadline: float = float("inf")
) -> list[str] | None:
    """One HTML line for each line; None if it fails or passes `deadline` (`thread_time`)."""
    text = "\n".join(lines)
    if len(text) > MAX_CHARACTERS or any(len(line) > MAX_LINE_LENGTH for line in lines):
        return None
    try:
        html = _html(text, language, deadline)
    except Exception:  # noqa: BLE001 - a lexer may fail in any way on arbitrary text
        return None
    done = html.split("\n")
    return done if len(done) == len(lines) else None


def _html(text: str, language: Lexer, deadline: float) -> str:
    html: list[str] = []
    for css_class, group in groupby(_pieces(text, language, deadline), itemgetter(0)):
        safe = escape("".join(value for _, value in group), quote=False)
        if css_class:
            start = f'<span class="{css_class}">'
            # Each line is shown separately, so no span may cross a line end.
            safe = start + safe.replace("\n", f"</span>\n{start}") + "</span>"
        html.append(safe)
    return "".join(html)


def _pieces(text: str, language: Lexer, deadline: float) -> Iterator[tuple[str, str]]:
    """Token by token, because hostile text can make a lexer slow."""
    for _, kind, value in language.get_tokens_unprocessed(text):
        if time.thread_time() > deadline:
            raise TimeoutError
        yield _find_class(kind), value


@cache
def _find_class(kind: _TokenType) -> str:
    short = STANDARD_TYPES.get(kind)
    if short is None:
        return _find_class(kind.parent) if kind.parent is not None else ""
    return _CLASSES.get(short) or _CLASSES.get(short[:1], "")


@lru_cache(maxsize=512)
def _lexer_for_file(name: str) -> Lexer | None:
    # The lookup takes a few milliseconds.
    lexer_class = find_lexer_class_for_filename(name)
    return None if lexer_class is None else _new_lexer(lexer_class)


def _new_lexer(lexer_class: type[Lexer]) -> Lexer | None:
    return None if _COLOURLESS & set(lexer_class.aliases) else lexer_class()
