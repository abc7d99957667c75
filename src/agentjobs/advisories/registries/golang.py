"""The version list of a Go module proxy, which has only tagged versions."""

import re

from agentjobs.advisories.registries.api import Body, RegistryApi, as_text, segments
from agentjobs.advisories.registries.versions import Published, PublishedVersion

_UPPER = re.compile("[A-Z]")


def path_for(name: str) -> str:
    escaped = _UPPER.sub(lambda letter: f"!{letter[0].lower()}", name)
    return f"/{'/'.join(segments(escaped))}/@v/list"


def read(_name: str, _content_type: str, body: Body) -> Published:
    # Without the v, as in advisories.
    lines = (line.strip() for line in as_text(body).splitlines())
    return Published(
        tuple(PublishedVersion(line.removeprefix("v")) for line in lines if line.startswith("v"))
    )


GO = RegistryApi(path_for=path_for, read=read, accept="text/plain")
