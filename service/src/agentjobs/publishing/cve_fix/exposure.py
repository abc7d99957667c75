"""The dependencies of a commit and their known vulnerabilities, read from its own files.

Not from the index, which may describe another commit and never describes the agent's.
"""

import asyncio

from agentjobs.advisories.scans import load_advisories
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.publishing.context import ServiceRun
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.fix_plan import Exposure


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
