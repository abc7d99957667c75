"""Maven's order of versions, as its POM reference specifies it.

That order pads the shorter version with what counts for nothing (0, or an empty qualifier). Maven's
own comparison is not transitive where a dot stands before a qualifier; this one is.
"""

import re
from typing import Any, NamedTuple

NUMBERS = re.compile(r"\d+(?:\.\d+)*", re.ASCII)

# Ranges, variables and the words for "whatever is newest" are no versions.
_VERSION = re.compile(r"(?!(?:latest|release)$)[0-9a-z][0-9a-z.+_-]*", re.IGNORECASE | re.ASCII)
_TOKEN = re.compile(r"([-._]?)(\d+|[^\d._-]*)")
_QUALIFIERS = {"alpha": -5, "beta": -4, "milestone": -3, "rc": -2, "cr": -2, "snapshot": -1}
_RELEASE = frozenset({"", "final", "ga", "release"})
_BEFORE_DIGIT = {"a": "alpha", "b": "beta", "m": "milestone"}

# How a version goes on: below its end, at its end, or above it.
_LOWER, _END, _QUALIFIED, _HYPHEN_NUMBER, _DOT_NUMBER = -1, 0, 1, 2, 3


class _Token(NamedTuple):
    separator: str
    number: int
    # 0 for a number and for a release; after all words that Maven knows come those it does not.
    rank: int
    word: str

    @property
    def is_nothing(self) -> bool:
        return not (self.number or self.rank)


def key(text: str) -> tuple[Any, ...] | None:
    if NUMBERS.fullmatch(text):
        return _numbers_key([int(number) for number in text.split(".")])
    return _words_key(text.lower()) if _VERSION.fullmatch(text) else None


def _numbers_key(numbers: list[int]) -> tuple[Any, ...]:
    """The same as for any version, but quicker; most versions are dotted numbers."""
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return (*[(_DOT_NUMBER, 0, "", number) for number in numbers], (_END,))


def _words_key(text: str) -> tuple[Any, ...]:
    found: list[Any] = []
    nothings: list[Any] = []
    for token in _trimmed(_tokens(text)):
        if token.is_nothing:
            nothings.append(_going_on(token))
            continue
        # Nothing is below the end of the other version if what it leads to is, else above it.
        if token.rank < 0:
            found.append((_LOWER, len(nothings), token.rank))
        else:
            found.extend((*nothings, _going_on(token)))
        nothings.clear()
    return (*found, (_END,))


def is_prerelease(key: tuple[Any, ...]) -> bool:
    return any(part[0] == _LOWER for part in key)


def _tokens(text: str) -> list[_Token]:
    pairs = [(sep, value) for sep, value in _TOKEN.findall(text) if sep or value]
    tokens = []
    for position, (sep, value) in enumerate(pairs):
        # A change between digits and letters counts as a hyphen.
        separator = "." if sep == "." or position == 0 else "-"
        if value.isdigit():
            tokens.append(_Token(separator, int(value), 0, ""))
        else:
            joined = position + 1 < len(pairs) and pairs[position + 1][0] == ""
            tokens.append(_word(separator, _BEFORE_DIGIT.get(value, value) if joined else value))
    return tokens


def _word(separator: str, value: str) -> _Token:
    if value in _RELEASE:
        return _Token(separator, 0, 0, "")
    if value in _QUALIFIERS:
        return _Token(separator, 0, _QUALIFIERS[value], "")
    return _Token(separator, 0, 1 if value == "sp" else 2, value)


def _trimmed(tokens: list[_Token]) -> list[_Token]:
    """Without what counts for nothing at the end and before each hyphen."""
    kept: list[_Token] = []
    for token in tokens:
        if token.separator == "-":
            _trim_end(kept)
        kept.append(token)
    _trim_end(kept)
    return kept


def _trim_end(tokens: list[_Token]) -> None:
    while tokens and tokens[-1].is_nothing:
        tokens.pop()


def _going_on(token: _Token) -> tuple[int, int, str, int]:
    if token.rank:
        return (_QUALIFIED, token.rank, token.word, 0)
    return (_DOT_NUMBER if token.separator == "." else _HYPHEN_NUMBER, 0, "", token.number)
