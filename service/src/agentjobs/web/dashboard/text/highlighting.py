"""Highlights source code as lines of escaped HTML with short CSS classes.

Returns None for unknown languages and for code that takes too long.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from html import escape
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import (
    find_lexer_class_by_name,
    find_lexer_class_for_filename,
)
from pygments.token import STANDARD_TYPES, _TokenType
from pygments.util import ClassNotFound

from agentjobs.web.dashboard.text.code_scanner import Piece, Scanner, scanner_for

MAX_CHARACTERS = 256 * 1024
MAX_LINE_LENGTH = 2_000

Language = Scanner | Lexer
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
_SUFFIXES = {
    "python": ".py",
    "py": ".py",
    "javascript": ".js",
    "js": ".js",
    "typescript": ".ts",
    "ts": ".ts",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c",
    "cpp": ".cpp",
}


def language_of_file(path: str) -> Language | None:
    name = PurePosixPath(path)
    return scanner_for(name.suffix) or _lexer_for_file(name.name[-200:])


@lru_cache(maxsize=256)
def language_named(name: str) -> Language | None:
    """By the info string of a Markdown code fence."""
    known = scanner_for(_SUFFIXES.get(name.lower(), ""))
    if known is not None or not name or len(name) > 40:
        return known
    try:
        return _new_lexer(find_lexer_class_by_name(name))
    except ClassNotFound:
        return None


def highlight(
    lines: Sequence[str], language: Language, *, deadline: float = float("inf")
) -> list[str] | None:
    """One HTML line for each line; None if it fails or passes `deadline` (`thread_time`)."""
    text = "\n".join(lines)
    if len(text) > MAX_CHARACTERS or any(len(line) > MAX_LINE_LENGTH for line in lines):
        return None
    try:
        html = _html(_pieces(text, language), deadline)
    except Exception:  # noqa: BLE001 - a lexer may fail in any way on arbitrary text
        return None
    done = html.split("\n")
    return done if len(done) == len(lines) else None


def _html(pieces: Iterator[Piece], deadline: float) -> str:
    html: list[str] = []
    for count, (css_class, value) in enumerate(pieces):
        if not count % 64 and time.thread_time() > deadline:
            raise TimeoutError
        safe = escape(value, quote=False)
        if css_class:
            start = f'<span class="{css_class}">'
            # Each line is shown separately, so no span may cross a line end.
            safe = start + safe.replace("\n", f"</span>\n{start}") + "</span>"
        html.append(safe)
    return "".join(html)


def _pieces(text: str, language: Language) -> Iterator[Piece]:
    """Yields token by token, because hostile text can make a lexer slow."""
    if isinstance(language, Scanner):
        return language.pieces(text)
    return ((_class_of(kind), value) for _, kind, value in language.get_tokens_unprocessed(text))


@cache
def _class_of(kind: _TokenType) -> str:
    short = STANDARD_TYPES.get(kind)
    if short is None:
        return _class_of(kind.parent) if kind.parent is not None else ""
    return _CLASSES.get(short) or _CLASSES.get(short[:1], "")


@lru_cache(maxsize=512)
def _lexer_for_file(name: str) -> Lexer | None:
    # The lookup takes a few milliseconds.
    lexer_class = find_lexer_class_for_filename(name)
    return None if lexer_class is None else _new_lexer(lexer_class)


def _new_lexer(lexer_class: type[Lexer]) -> Lexer | None:
    return None if _COLOURLESS & set(lexer_class.aliases) else lexer_class()
