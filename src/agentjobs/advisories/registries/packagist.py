"""The version list of a Composer repository, where each entry has only what changed."""

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
    """Every entry has this field, because at least the version changes."""

    version: str | None = None


class _Packages(msgspec.Struct):
    packages: dict[str, list[_Version]] = {}


def path_for(name: str) -> str:
    parts = segments(name.lower())
    if len(parts) != 2:
        raise InvalidPackageName(f"{name!r} is not a valid package name: use vendor/name")
    return f"/p2/{'/'.join(parts)}.json"


def read(name: str, _content_type: str, body: Body) -> Published:
    entries = decode(body, _Packages).packages.get(name.lower(), [])
    versions = dict.fromkeys(entry.version for entry in entries if entry.version)
    return Published(tuple(PublishedVersion(version) for version in versions))


PACKAGIST = RegistryApi(path_for=path_for, read=read)
