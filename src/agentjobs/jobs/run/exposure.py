"""What a commit depends on and which of it is known to be vulnerable, read from its own files.

For the agent `cve-fixer`: before it, to know what to ask for; after it, to know what was done.
"""

import asyncio
from functools import cached_property
from pathlib import Path

import msgspec

from agentjobs.advisories.exposure import Finding, find
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.scans import advisories_about
from agentjobs.inventory.index.process import IndexFailure
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.inventory.model import Dependency, IndexWarning
from agentjobs.jobs.run.outcomes import Stopped
from agentjobs.jobs.run.tools import JobTools

# A manifest, an ecosystem, a package: what one fix is about.
Place = tuple[str, str, str]


class Exposure(msgspec.Struct, frozen=True, dict=True):
    dependencies: tuple[Dependency, ...]
    advisories: tuple[Advisory, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[IndexWarning, ...] = ()

    def at(self, place: Place) -> list[Dependency]:
        return self._by_place.get(place, [])

    @cached_property
    def _by_place(self) -> dict[Place, list[Dependency]]:
        found: dict[Place, list[Dependency]] = {}
        for one in self.dependencies:
            found.setdefault(place_of(one), []).append(one)
        return found


def place_of(one: Dependency | Finding) -> Place:
    return one.manifest, one.ecosystem, one.name


async def exposure_at(tools: JobTools, git_dir: Path, commit: str) -> Exposure:
    """Whatever the index says: that may be of another commit, and of the agent's there is none."""
    try:
        reading = await read_dependencies(git_dir, commit, tools.context.settings)
    except IndexFailure as error:
        raise Stopped("sandbox_error", f"The manifests could not be read: {error}") from None
    advisories = await advisories_about(tools.context.db, reading.dependencies)
    found = await asyncio.to_thread(find, reading.dependencies, advisories)
    return Exposure(
        tuple(reading.dependencies), tuple(advisories), tuple(found), tuple(reading.warnings)
    )
