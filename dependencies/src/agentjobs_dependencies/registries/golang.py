"""The version list of a Go module proxy, which has only tagged versions."""

import re
from typing import Any

import msgspec

from agentjobs_dependencies.registries.api import (
    Body,
    RegistryApi,
    as_text,
    decode,
    segment,
    segments,
    split_lines,
)
from agentjobs_dependencies.registries.versions import (
    InvalidResponse,
    Published,
    PublishedVersion,
    time_ms,
)

_UPPER = re.compile("[A-Z]")


class _Info(msgspec.Struct):
    Time: Any = None


def path_for(name: str) -> str:
    return f"/{'/'.join(segments(_escape(name)))}/@v/list"


def version_path_for(name: str, version: str) -> str:
    return f"/{'/'.join(segments(_escape(name)))}/@v/{segment(_escape(f'v{version}'))}.info"


def read(_name: str, _content_type: str, body: Body) -> Published:
    # Without the v, as in advisories.
    lines = [as_text(line).strip() for line in split_lines(body)]
    versions = tuple(PublishedVersion(line[1:]) for line in lines if line.startswith("v"))
    if not versions and any(lines):
        raise InvalidResponse("it is not a list of versions")
    return Published(versions)


def read_time(body: Body) -> int | None:
    return time_ms(decode(body, _Info).Time)


def _escape(text: str) -> str:
    return _UPPER.sub(lambda letter: f"!{letter[0].lower()}", text)


GO = RegistryApi(
    path_for=path_for,
    read=read,
    version_path_for=version_path_for,
    read_time=read_time,
    accept="text/plain, application/json",
)
