"""Decodes JSON with comments and trailing commas, as configuration files of editors have them."""

import re
from typing import Any

import msgspec

# Strings are matched to be kept. Unterminated ones and comments match as well, so that each is read
# only once.
_STRING = rb"(\"(?>(?:[^\"\\\n]++|\\.)*)\"?)"
_STRING_OR_COMMENT = re.compile(_STRING + rb"|//[^\n]*+|/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/)?")
_STRING_OR_COMMA = re.compile(_STRING + rb"|,(?=\s*+[\]}])")
_NOT_LINE_END = re.compile(rb"[^\n]")
_BYTE = re.compile(r" \(byte (\d+)\)")


def decode_json_with_comments(content: bytes) -> Any:
    """Raises ValueError with a reason and its line, or RecursionError."""
    plain = content
    if plain.startswith(b"\xef\xbb\xbf"):
        plain = b"   " + plain[3:]
    for pattern in (_STRING_OR_COMMENT, _STRING_OR_COMMA):
        plain = pattern.sub(_blank, plain)
    try:
        return msgspec.json.decode(plain)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise ValueError(_with_line(str(error), content)) from None


def _blank(match: re.Match[bytes]) -> bytes:
    """Spaces of the same length with the same line ends, so that positions stay true."""
    return match[1] or _NOT_LINE_END.sub(b" ", match[0])


def _with_line(reason: str, content: bytes) -> str:
    position = _BYTE.search(reason)
    end = len(content) if position is None else int(position[1])
    line = content.count(b"\n", 0, end) + 1
    return f"{_BYTE.sub('', reason)}, line {line}"
