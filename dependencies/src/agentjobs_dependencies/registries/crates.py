"""Cargo's sparse index: one JSON object per line, at a path derived from the name."""

from typing import Any

import msgspec

from agentjobs_dependencies.registries.api import Body, RegistryApi, decode, segment, split_lines
from agentjobs_dependencies.registries.versions import (
    Published,
    PublishedVersion,
    range_text,
    time_ms,
)


class _Line(msgspec.Struct):
    vers: str
    yanked: bool = False
    rust_version: Any = None
    pubtime: Any = None

    @property
    def published(self) -> PublishedVersion:
        return PublishedVersion(
            self.vers,
            self.yanked,
            requires=range_text(self.rust_version),
            published_at=time_ms(self.pubtime),
        )


def path_for(name: str) -> str:
    lower = segment(name.lower())
    match len(lower):
        case 1 | 2:
            return f"/{len(lower)}/{lower}"
        case 3:
            return f"/3/{lower[0]}/{lower}"
        case _:
            return f"/{lower[:2]}/{lower[2:4]}/{lower}"


def read(_name: str, _content_type: str, body: Body) -> Published:
    lines = (decode(line, _Line) for line in split_lines(body) if line.strip())
    return Published(tuple(line.published for line in lines))


CRATES = RegistryApi(path_for=path_for, read=read, accept="text/plain, application/json")
