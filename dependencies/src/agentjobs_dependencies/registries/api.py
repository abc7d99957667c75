"""The API of a registry: the path of a package, and how to parse the response.

Package names are untrusted; this module makes them safe as parts of a URL.
"""

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from agentjobs_dependencies.registries.versions import MAX_VERSIONS, InvalidResponse, Published

MIB = 1024 * 1024
_MAX_NAME_LENGTH = 512

Body = bytes | bytearray
T = TypeVar("T")


class InvalidPackageName(ValueError):
    """No package can have this name."""


class RegistryApi(msgspec.Struct, frozen=True, kw_only=True):
    """`path_for` returns the path below the registry's URL; `read` parses (name, type, body).

    `path_for` raises InvalidPackageName, `read` InvalidResponse. If the list has no times,
    `version_path_for` and `read_time` are for the page of one version.
    """

    path_for: Callable[[str], str]
    read: Callable[[str, str, Body], Published]
    version_path_for: Callable[[str, str], str] | None = None
    read_time: Callable[[Body], int | None] = lambda _body: None
    accept: str = "application/json"
    max_bytes: int = 16 * MIB


def segments(name: str, separator: str = "/") -> list[str]:
    """The parts of a name, each safe as a path segment."""
    parts = name.split(separator)
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidPackageName(f"{name[:80]!r} is not a valid package name")
    if any(part in {"", ".", ".."} for part in parts):
        raise InvalidPackageName(f"{name!r} is not a valid package name")
    return [quote(part, safe="@!+~") for part in parts]


def segment(name: str) -> str:
    """Like `segments`, for a name without slashes."""
    only, *rest = segments(name)
    if rest:
        raise InvalidPackageName(f"{name!r} is not a valid package name: it contains a slash")
    return only


def decode(body: Body, form: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidResponse(f"unexpected JSON ({error})") from None


def split_lines(body: Body) -> list[Body]:
    """Counted first, because an object for each of millions of lines needs much memory."""
    count = body.count(b"\n")
    if count > MAX_VERSIONS:
        raise InvalidResponse(f"it has {count} lines, which is too many")
    return list(body.split(b"\n"))


def as_text(body: Body) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidResponse(f"invalid UTF-8 ({error.reason} at {error.start})") from None
