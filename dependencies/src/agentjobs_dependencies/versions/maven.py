"""The order of Maven versions, as specified in the POM reference.

The order pads the shorter version with null values (0, or an empty qualifier). Maven's own
comparison is not transitive if a dot precedes a qualifier; this one is.
"""

import re
from typing import Any, NamedTuple

NUMBERS = re.compile(r"\d+(?:\.\d+)*", re.ASCII)

# Ranges, variables, LATEST and RELEASE are not versions.
_VERSION = re.compile(r"(?!(?:latest|release)$)[0-9a-z][0-9a-z.+_-]*", re.IGNORECASE | re.ASCII)
_TOKEN = re.compile(r"([-._]?)(\d+|[^\d._-]*)")
_QUALIFIERS = {"alpha": -5, "beta": -4, "milestone": -3, "rc": -2, "cr": -2, "snapshot": -1}
_RELEASE = frozenset({"", "final", "ga", "release"})
_BEFORE_DIGIT = {"a": "alpha", "b": "beta", "m": "milestone"}

# How the next part compares with the end of a version.
_LOWER, _END, _QUALIFIED, _HYPHEN_NUMBER, _DOT_NUMBER = -1, 0, 1, 2, 3


class _Token(NamedTuple):
    separator: str
    number: int
    # 0 for a number and for a release; unknown qualifiers rank after known ones.
    rank: int
    word: str

    @property
    def is_null(self) -> bool:
        return not (self.number or self.rank)


def key(text: str) -> tuple[Any, ...] | None:
    if NUMBERS.fullmatch(text):
        return _numbers_key([int(number) for number in text.split(".")])
    return _qualifier_version_key(text.lower()) if _VERSION.fullmatch(text) else None


def _numbers_key(numbers: list[int]) -> tuple[Any, ...]:
    """A faster way for dotted numbers, which most versions are."""
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return (*[(_DOT_NUMBER, 0, "", number) for number in numbers], (_END,))


def _qualifier_version_key(text: str) -> tuple[Any, ...]:
    parts: list[Any] = []
    nulls: list[Any] = []
    for token in _trim(_tokens(text)):
        if token.is_null:
            nulls.append(_part_key(token))
            continue
        # Null values sort below the end if the part after them does, else above it.
        if token.rank < 0:
            parts.append((_LOWER, len(nulls), token.rank))
        else:
            parts.extend((*nulls, _part_key(token)))
        nulls.clear()
    return (*parts, (_END,))


def is_prerelease(key: tuple[Any, ...]) -> bool:
    return any(part[0] == _LOWER for part in key)


def _tokens(text: str) -> list[_Token]:
    pairs = [(sep, value) for sep, value in _TOKEN.findall(text) if sep or value]
    tokens = []
    for position, (sep, value) in enumerate(pairs):
        # A transition between digits and letters counts as a hyphen.
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


def _trim(tokens: list[_Token]) -> list[_Token]:
    """Removes null values at the end and before each hyphen."""
    trimmed: list[_Token] = []
    for token in tokens:
        if token.separator == "-":
            _trim_end(trimmed)
        trimmed.append(token)
    _trim_end(trimmed)
    return trimmed


def _trim_end(tokens: list[_Token]) -> None:
    while tokens and tokens[-1].is_null:
        tokens.pop()


def _part_key(token: _Token) -> tuple[int, int, str, int]:
    if token.rank:
        return (_QUALIFIED, token.rank, token.word, 0)
    return (_DOT_NUMBER if token.separator == "." else _HYPHEN_NUMBER, 0, "", token.number)
