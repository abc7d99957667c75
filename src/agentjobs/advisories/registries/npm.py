"""npm's list of a package's versions, in the short form that installers ask for.

A deprecated version is not a withdrawn one: npm removes what is unpublished.
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
    """Nothing of it is needed: only the keys are."""


class _Package(msgspec.Struct):
    versions: dict[str, _Version] = {}


def path_of(name: str) -> str:
    if not name.startswith("@"):
        return f"/{segment(name)}"
    scope, *rest = segments(name)
    if len(rest) != 1:
        raise InvalidPackageName(f"{name!r} is no name of a package: a scope and one name make one")
    return f"/{scope}%2f{rest[0]}"


def read(_name: str, _content_type: str, body: Body) -> Published:
    return Published(tuple(map(PublishedVersion, decode(body, _Package).versions)))


NPM = RegistryApi(
    path_of=path_of,
    read=read,
    accept="application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8",
    most_bytes=64 * MIB,
)
