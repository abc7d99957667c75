"""Parses untrusted bytes as text, TOML and JSON, within limits of time and memory.

A file that cannot be read raises `UnreadableManifest`, whose message becomes a warning.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

try:
    # The parser of the standard library, compiled.
    import tomli as toml
except ImportError:
    import tomllib as toml  # type: ignore[no-redef]  # the same functions

# Deeper than any manifest, and far below the recursion limit of parsers.
MAX_DEPTH = 64
MAX_WARNINGS = 20
# Parsed data takes several times the size of the file, and larger files take seconds.
MAX_TOML_BYTES = 8 << 20
# Several times as many as the largest lock files have; each takes about 100 bytes.
MAX_JSON_VALUES = 5_000_000

_BINARY = "binary content; a manifest must be UTF-8"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
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
        return toml.loads(text)
    except toml.TOMLDecodeError as error:
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


def parse_json(content: bytes) -> tuple[dict[str, Any], Warnings]:
    """A JSON object. Of duplicate keys, the last one counts."""
    text, reasons = decode(content)
    if sum(map(text.count, ",[{")) > MAX_JSON_VALUES:
        raise UnreadableManifest(f"more than {MAX_JSON_VALUES} values: too large")
    try:
        document = json.loads(text, parse_int=_parse_int)
    except RecursionError:
        raise UnreadableManifest("unsupported JSON: nested too deeply") from None
    except ValueError as error:
        raise UnreadableManifest("; ".join((*reasons, f"not valid JSON: {error}"))) from None
    if not isinstance(document, dict):
        raise UnreadableManifest("unexpected structure: not a JSON object")
    if _SURROGATE.search(text):
        # Half of a pair can neither be encoded nor stored.
        readable = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        document = json.loads(readable, parse_int=_parse_int)
    return document, Warnings(reasons)


def _parse_int(text: str) -> int | None:
    """None for a number out of range."""
    return int(text) if len(text) < 20 else None


def check_content(content: bytes, max_bytes: int) -> None:
    """Raises UnreadableManifest if the content is binary or too large for a full parser."""
    if b"\0" in content:
        raise UnreadableManifest(_BINARY)
    if len(content) > max_bytes:
        raise UnreadableManifest(
            f"larger than {max_bytes >> 20} MiB, and not in the form its tool writes"
        )
