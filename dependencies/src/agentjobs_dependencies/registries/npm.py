"""npm's version list of a package, in the full form: the one for installers has no times.

A deprecated version is not withdrawn; npm removes unpublished versions from the list.
"""

from typing import Any

import msgspec

from agentjobs_dependencies.registries.api import (
    MIB,
    Body,
    InvalidPackageName,
    RegistryApi,
    decode,
    segment,
    segments,
)
from agentjobs_dependencies.registries.versions import (
    Published,
    PublishedVersion,
    range_text,
    time_ms,
)


class _Version(msgspec.Struct):
    """Packages of all times have engines of all types."""

    engines: Any = None

    @property
    def node(self) -> str:
        return range_text(self.engines.get("node") if isinstance(self.engines, dict) else None)


class _Package(msgspec.Struct):
    versions: dict[str, _Version] = {}
    time: dict[str, Any] = {}


def path_for(name: str) -> str:
    if not name.startswith("@"):
        return f"/{segment(name)}"
    scope, *rest = segments(name)
    if len(rest) != 1:
        raise InvalidPackageName(f"{name!r} is not a valid package name: use @scope/name")
    return f"/{scope}%2f{rest[0]}"


def read(_name: str, _content_type: str, body: Body) -> Published:
    package = decode(body, _Package)
    return Published(
        tuple(
            PublishedVersion(
                version, requires=item.node, published_at=time_ms(package.time.get(version))
            )
            for version, item in package.versions.items()
        )
    )


NPM = RegistryApi(path_for=path_for, read=read, max_bytes=64 * MIB)
