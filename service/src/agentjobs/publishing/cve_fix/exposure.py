"""The dependencies of a commit and their known vulnerabilities, read from its own files.

Not from the index, which may describe another commit and never describes the agent's.
"""

import asyncio
from functools import cached_property

import msgspec

from agentjobs.advisories.scans import load_advisories
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.publishing.context import ServiceRun
from agentjobs_dependencies.advisories.dependency_matching import Finding, match_dependencies
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.model import Dependency, IndexWarning

# A manifest, an ecosystem, a package: what one fix is about.
Location = tuple[str, str, str]


class Exposure(msgspec.Struct, frozen=True, dict=True):
    dependencies: tuple[Dependency, ...]
    advisories: tuple[Advisory, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[IndexWarning, ...] = ()
    installed_together: tuple[tuple[str, ...], ...] = ()

    def installed_with(self, manifest: str) -> set[str]:
        """The manifest itself, and all that are installed or resolved together with it."""
        groups = (group for group in self.installed_together if manifest in group)
        return {manifest}.union(*groups)

    def at(self, location: Location) -> list[Dependency]:
        return self._by_location.get(location, [])

    @cached_property
    def _by_location(self) -> dict[Location, list[Dependency]]:
        by_location: dict[Location, list[Dependency]] = {}
        for dependency in self.dependencies:
            by_location.setdefault(locate_package(dependency), []).append(dependency)
        return by_location


def locate_package(item: Dependency | Finding) -> Location:
    return item.manifest, item.ecosystem, item.name


async def read_exposure(run: ServiceRun, commit: str) -> Exposure:
    """Raises IndexFailure when the manifests cannot be read."""
    reading = await read_dependencies(run.mirror, commit, run.settings, run.tools.poms)
    advisories = await load_advisories(run.db, reading.dependencies)
    findings = await asyncio.to_thread(match_dependencies, reading.dependencies, advisories)
    return Exposure(
        reading.dependencies,
        tuple(advisories),
        tuple(findings),
        reading.warnings,
        reading.installed_together,
    )
