"""Writes large JSON documents piece by piece, without terminal control characters."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

_CONTROL = re.compile("[\x7f-\x9f]")
_encode = msgspec.json.Encoder().encode


def json_list(name: str, values: Iterable[Any]) -> Iterator[str]:
    """A member of an object, a line for each value."""
    yield f"{json_text(name)}: ["
    separator = "\n"
    for value in values:
        yield separator + json_text(value)
        separator = ",\n"
    yield "]"


def json_text(value: Any) -> str:
    """Also escapes control characters that the encoder leaves as they are."""
    return _CONTROL.sub(_escape_json, _encode(value).decode())


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
