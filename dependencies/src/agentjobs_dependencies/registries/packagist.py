"""The version list of a Composer repository, where each entry has only what changed."""

from typing import Any

import msgspec

from agentjobs_dependencies.registries.api import (
    Body,
    InvalidPackageName,
    RegistryApi,
    decode,
    segments,
)
from agentjobs_dependencies.registries.versions import Published, PublishedVersion, time_ms


class _Version(msgspec.Struct):
    """Every entry has this field, because at least the version changes."""

    version: str | None = None
    time: Any = None


class _Packages(msgspec.Struct):
    packages: dict[str, list[_Version]] = {}


def path_for(name: str) -> str:
    parts = segments(name.lower())
    if len(parts) != 2:
        raise InvalidPackageName(f"{name!r} is not a valid package name: use vendor/name")
    return f"/p2/{'/'.join(parts)}.json"


def read(name: str, _content_type: str, body: Body) -> Published:
    entries = decode(body, _Packages).packages.get(name.lower(), [])
    times = {entry.version: time_ms(entry.time) for entry in entries if entry.version}
    return Published(
        tuple(PublishedVersion(version, published_at=time) for version, time in times.items())
    )


PACKAGIST = RegistryApi(path_for=path_for, read=read)
