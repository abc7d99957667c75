"""Parses untrusted bytes as text, TOML and JSON, within limits of time and memory.

A file that cannot be read raises `UnreadableManifest`, whose message becomes a warning.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import tomli

T = TypeVar("T")

# Deeper than any manifest, and far below the recursion limit of parsers.
MAX_DEPTH = 64
MAX_WARNINGS = 20
# Parsed data takes several times the size of the file, and larger files take seconds.
MAX_TOML_BYTES = 8 << 20

_BINARY = "binary content; a manifest must be UTF-8"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

# Parsing a dotted key takes time quadratic in its parts.
_LONG_KEY = re.compile(
    r"""(?:^|[{,])[ \t]*+\[{0,2}+(?:[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.){16}""",
    re.MULTILINE,
)


class UnreadableManifest(Exception):
    """The file cannot be read; the message says why."""


class Warnings:
    """The warnings of one file: the first in full, the rest as a count."""

    def __init__(self, reasons: tuple[str, ...] = ()) -> None:
        self._reasons = list(reasons)
        self._left_out = 0

    def add(self, reason: str) -> None:
        if len(self._reasons) < MAX_WARNINGS:
            self._reasons.append(reason)
        else:
            self._left_out += 1

    def all(self) -> tuple[str, ...]:
        rest = [f"and {self._left_out} more of this kind"] if self._left_out else []
        return (*self._reasons, *rest)


def decode(content: bytes) -> tuple[str, tuple[str, ...]]:
    """The text and warnings. An invalid byte is replaced and does not make the file unreadable."""
    if content.startswith(_UTF_16):
        # PowerShell redirects output to files in this encoding.
        return content.decode("utf-16", "replace"), ()
    if b"\0" in content:
        return "", (_BINARY,)
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        reason = f"not valid UTF-8 at byte {error.start}; invalid bytes are replaced"
        return content.decode("utf-8-sig", "replace"), (reason,)


def parse_toml(content: bytes) -> dict[str, Any]:
    check_content(content, MAX_TOML_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableManifest(
            f"not valid UTF-8 at byte {error.start}, which TOML requires"
        ) from None
    if _LONG_KEY.search(text):
        raise UnreadableManifest("a dotted key of more than 16 parts")
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise UnreadableManifest(f"not valid TOML: {str(error)[:200]}") from None
    except (RecursionError, ValueError) as error:
        raise UnreadableManifest(f"unsupported TOML: {str(error)[:200]}") from None


def parse_lock_toml(content: bytes, bulk: re.Pattern[bytes]) -> tuple[dict[str, Any], str | None]:
    """Parse a lock file of `[[package]]` tables without the lines of `bulk` (hashes, URLs), which
    are most of it and not needed. Of a truncated file, parse the complete tables."""
    try:
        return parse_toml(bulk.sub(b"", content)), None
    except UnreadableManifest as error:
        reason = str(error)
    try:
        return parse_toml(content), None
    except UnreadableManifest:
        complete = content[: max(content.rfind(b"\n[[package]]"), 0)]
    return parse_toml(bulk.sub(b"", complete)) if complete else {}, reason


def table_at(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Empty if there is none, or something else."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def parse_json(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if b"\0" in content:
        raise UnreadableManifest(_BINARY)
    try:
        return decoder.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise UnreadableManifest(
            f"not valid UTF-8 at byte {error.start}, which JSON requires"
        ) from None
    except msgspec.ValidationError as error:
        raise UnreadableManifest(f"unexpected structure: {str(error)[:200]}") from None
    except msgspec.DecodeError as error:
        raise UnreadableManifest(f"not valid JSON: {str(error)[:200]}") from None
    except RecursionError as error:
        raise UnreadableManifest(f"unsupported JSON: {str(error)[:200]}") from None


def check_content(content: bytes, max_bytes: int) -> None:
    """Raises UnreadableManifest if the content is binary or too large for a full parser."""
    if b"\0" in content:
        raise UnreadableManifest(_BINARY)
    if len(content) > max_bytes:
        raise UnreadableManifest(
            f"larger than {max_bytes >> 20} MiB, and not in the form its tool writes"
        )
