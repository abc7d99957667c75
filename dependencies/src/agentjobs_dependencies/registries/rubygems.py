"""RubyGems' version list of a gem, with a separate entry for each platform."""

from typing import Any

import msgspec

from agentjobs_dependencies.registries.api import Body, RegistryApi, decode, segment
from agentjobs_dependencies.registries.versions import (
    Published,
    PublishedVersion,
    range_text,
    time_ms,
)

_ANY_PLATFORM = "ruby"


class _Version(msgspec.Struct):
    number: str
    platform: str | None = _ANY_PLATFORM
    ruby_version: Any = None
    created_at: Any = None

    @property
    def published(self) -> PublishedVersion:
        return PublishedVersion(
            self.number,
            requires=range_text(self.ruby_version),
            published_at=time_ms(self.created_at),
        )


def path_for(name: str) -> str:
    return f"/api/v1/versions/{segment(name)}.json"


def read(_name: str, _content_type: str, body: Body) -> Published:
    # Yanked versions are not listed.
    entries = decode(body, list[_Version])
    plain = [entry for entry in entries if entry.platform in {None, _ANY_PLATFORM}]
    # A gem may have only platform-specific versions.
    versions = {entry.number: entry.published for entry in plain or entries}
    return Published(tuple(versions.values()))


RUBYGEMS = RegistryApi(path_for=path_for, read=read)
