"""The registry of each ecosystem."""

from collections.abc import Mapping

import msgspec

from agentjobs_dependencies.registries.api import Body, RegistryApi
from agentjobs_dependencies.registries.crates import CRATES
from agentjobs_dependencies.registries.golang import GO
from agentjobs_dependencies.registries.maven import MAVEN
from agentjobs_dependencies.registries.npm import NPM
from agentjobs_dependencies.registries.packagist import PACKAGIST
from agentjobs_dependencies.registries.pypi import PYPI
from agentjobs_dependencies.registries.rubygems import RUBYGEMS
from agentjobs_dependencies.registries.versions import (
    MAX_VERSIONS,
    InvalidResponse,
    Published,
    is_version,
)

REGISTRY_APIS: Mapping[str, RegistryApi] = {
    "PyPI": PYPI,
    "npm": NPM,
    "Go": GO,
    "crates.io": CRATES,
    "Maven": MAVEN,
    "RubyGems": RUBYGEMS,
    "Packagist": PACKAGIST,
}


def parse_response(ecosystem: str, name: str, content_type: str, body: Body) -> Published:
    """Skips invalid versions. Raises InvalidResponse."""
    published = REGISTRY_APIS[ecosystem].read(name, content_type, body)
    if len(published.versions) > MAX_VERSIONS:
        raise InvalidResponse(f"it lists {len(published.versions)} versions, which is too many")
    valid = tuple(item for item in published.versions if is_version(item.version))
    return msgspec.structs.replace(published, versions=valid)
