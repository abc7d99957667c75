"""How a registry is asked, and how its answer is read: one value for each ecosystem.

Package names come out of other people's repositories: here they become parts of an address.
"""

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from agentjobs.advisories.registries.versions import InvalidResponse, Published

MIB = 1024 * 1024
_LONGEST_NAME = 512

Body = bytes | bytearray
T = TypeVar("T")


class InvalidPackageName(ValueError):
    """No package can have this name; the message says so."""


class RegistryApi(msgspec.Struct, frozen=True, kw_only=True):
    """`path_of` gives what follows the registry's address, `read` gets (name, type, body).

    `path_of` raises InvalidPackageName, `read` InvalidResponse.
    """

    path_of: Callable[[str], str]
    read: Callable[[str, str, Body], Published]
    accept: str = "application/json"
    most_bytes: int = 16 * MIB


def segments(name: str, separator: str = "/") -> list[str]:
    """The parts of a name, each safe as one part of a path."""
    parts = name.split(separator)
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidPackageName(f"{name[:80]!r} is no name of a package")
    if any(part in {"", ".", ".."} for part in parts):
        raise InvalidPackageName(f"{name!r} is no name of a package")
    return [quote(part, safe="@!+~") for part in parts]


def segment(name: str) -> str:
    """Likewise, where a name has but one part."""
    only, *more = segments(name)
    if more:
        raise InvalidPackageName(f"{name!r} is no name of a package: there is a slash in it")
    return only


def decode(body: Body, form: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidResponse(f"it is not the JSON that was asked for ({error})") from None


def as_text(body: Body) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidResponse(f"it is not UTF-8 ({error.reason} at {error.start})") from None
