"""Which ecosystem is asked how."""

from collections.abc import Mapping

import msgspec

from agentjobs.advisories.registries.crates import CRATES
from agentjobs.advisories.registries.dialect import Body, Dialect
from agentjobs.advisories.registries.golang import GO
from agentjobs.advisories.registries.maven import MAVEN
from agentjobs.advisories.registries.npm import NPM
from agentjobs.advisories.registries.packagist import PACKAGIST
from agentjobs.advisories.registries.pypi import PYPI
from agentjobs.advisories.registries.rubygems import RUBYGEMS
from agentjobs.advisories.registries.versions import (
    MAX_VERSIONS,
    InvalidResponse,
    Published,
    is_version,
)

DIALECTS: Mapping[str, Dialect] = {
    "PyPI": PYPI,
    "npm": NPM,
    "Go": GO,
    "crates.io": CRATES,
    "Maven": MAVEN,
    "RubyGems": RUBYGEMS,
    "Packagist": PACKAGIST,
}


def read_answer(ecosystem: str, name: str, content_type: str, body: Body) -> Published:
    """Without what cannot be a version; raises InvalidResponse."""
    found = DIALECTS[ecosystem].read(name, content_type, body)
    if len(found.versions) > MAX_VERSIONS:
        raise InvalidResponse(f"it lists {len(found.versions)} versions, more than any package has")
    usable = tuple(one for one in found.versions if is_version(one.version))
    return msgspec.structs.replace(found, versions=usable)
