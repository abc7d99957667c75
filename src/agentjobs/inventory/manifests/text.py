"""From bytes to text, TOML and JSON, within bounds that no stranger's file can break.

A file that cannot be read raises `Unreadable`, whose words are the warning in the index.
"""

import re
from typing import Any, TypeVar

import msgspec
import tomli

T = TypeVar("T")

# Deeper than any manifest, and far from where a parser's own recursion ends.
MAX_DEPTH = 64
MAX_WARNINGS = 20
# What the parsers below make of a file is several times its size, and takes seconds beyond this.
MAX_TOML_BYTES = 8 << 20

_BINARY = "it is binary, not text; a manifest is read as UTF-8"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

# A dotted key takes time by the square of its parts.
_LONG_KEY = re.compile(
    r"""(?:^|[{,])[ \t]*+\[{0,2}+(?:[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.){16}""",
    re.MULTILINE,
)


class Unreadable(Exception):
    """The file says nothing that can be read; the message says why."""


class Warnings:
    """What is wrong in one file: the first in full, the rest as a number."""

    def __init__(self, reasons: tuple[str, ...] = ()) -> None:
        self._reasons = list(reasons)
        self._left_out = 0

    def add(self, reason: str) -> None:
        if len(self._reasons) < MAX_WARNINGS:
            self._reasons.append(reason)
        else:
            self._left_out += 1

    def all(self) -> tuple[str, ...]:
        more = [f"and {self._left_out} more of this kind"] if self._left_out else []
        return (*self._reasons, *more)


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """The text and what was wrong with it. A stray byte costs one character, not the file."""
    if content.startswith(_UTF_16):
        # What PowerShell writes when a list of packages is sent to a file.
        return content.decode("utf-16", "replace"), ()
    if b"\0" in content:
        return "", (_BINARY,)
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        reason = f"not valid UTF-8 at byte {error.start}; what is not was left out"
        return content.decode("utf-8-sig", "replace"), (reason,)


def parse_toml(content: bytes) -> dict[str, Any]:
    refuse(content, MAX_TOML_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid UTF-8 at byte {error.start}: TOML has to be") from None
    if _LONG_KEY.search(text):
        raise Unreadable("a dotted key of more than 16 parts")
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise Unreadable(f"not valid TOML: {str(error)[:200]}") from None
    except (RecursionError, ValueError) as error:
        raise Unreadable(f"not TOML that can be read: {str(error)[:200]}") from None


def parse_lock_toml(content: bytes, bulk: re.Pattern[bytes]) -> tuple[dict[str, Any], str | None]:
    """A lock file of `[[package]]` tables without the lines of `bulk` (hashes, addresses), which
    are most of it and nothing to us. Of a file cut off in the middle, what stands whole before."""
    try:
        return parse_toml(bulk.sub(b"", content)), None
    except Unreadable as error:
        reason = str(error)
    try:
        return parse_toml(content), None
    except Unreadable:
        whole = content[: max(content.rfind(b"\n[[package]]"), 0)]
    return parse_toml(bulk.sub(b"", whole)) if whole else {}, reason


def parse_json(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if b"\0" in content:
        raise Unreadable(_BINARY)
    try:
        return decoder.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid UTF-8 at byte {error.start}: JSON has to be") from None
    except msgspec.ValidationError as error:
        raise Unreadable(f"not of the expected form: {str(error)[:200]}") from None
    except msgspec.DecodeError as error:
        raise Unreadable(f"not valid JSON: {str(error)[:200]}") from None
    except RecursionError as error:
        raise Unreadable(f"not JSON that can be read: {str(error)[:200]}") from None


def refuse(content: bytes, most_bytes: int) -> None:
    """Raises if it is binary, or more than a parser of the whole language should be given."""
    if b"\0" in content:
        raise Unreadable(_BINARY)
    if len(content) > most_bytes:
        raise Unreadable(f"larger than {most_bytes >> 20} MiB, and not as its own tool writes it")
