"""A Composer repository's list, which writes each version as what differs from the one before."""

import msgspec

from agentjobs.advisories.registries.api import (
    Body,
    InvalidPackageName,
    RegistryApi,
    decode,
    segments,
)
from agentjobs.advisories.registries.versions import Published, PublishedVersion


class _Version(msgspec.Struct):
    """Two versions differ in this at least, so even the shortest entry has it."""

    version: str | None = None


class _Packages(msgspec.Struct):
    packages: dict[str, list[_Version]] = {}


def path_of(name: str) -> str:
    parts = segments(name.lower())
    if len(parts) != 2:
        raise InvalidPackageName(f"{name!r} is no name of a package: vendor/name is")
    return f"/p2/{'/'.join(parts)}.json"


def read(name: str, _content_type: str, body: Body) -> Published:
    entries = decode(body, _Packages).packages.get(name.lower(), [])
    versions = dict.fromkeys(entry.version for entry in entries if entry.version)
    return Published(tuple(PublishedVersion(version) for version in versions))


PACKAGIST = RegistryApi(path_of=path_of, read=read)
