"""npm's version list of a package, in the abbreviated form for installers.

A deprecated version is not withdrawn; npm removes unpublished versions from the list.
"""

import msgspec

from agentjobs.advisories.registries.api import (
    MIB,
    Body,
    InvalidPackageName,
    RegistryApi,
    decode,
    segment,
    segments,
)
from agentjobs.advisories.registries.versions import Published, PublishedVersion


class _Version(msgspec.Struct):
    """Only the keys of the mapping are needed."""


class _Package(msgspec.Struct):
    versions: dict[str, _Version] = {}


def path_for(name: str) -> str:
    if not name.startswith("@"):
        return f"/{segment(name)}"
    scope, *rest = segments(name)
    if len(rest) != 1:
        raise InvalidPackageName(f"{name!r} is not a valid package name: use @scope/name")
    return f"/{scope}%2f{rest[0]}"


def read(_name: str, _content_type: str, body: Body) -> Published:
    return Published(tuple(map(PublishedVersion, decode(body, _Package).versions)))


NPM = RegistryApi(
    path_for=path_for,
    read=read,
    accept="application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8",
    max_bytes=64 * MIB,
)
