"""Findings in the store, as a scan leaves them."""

from collections.abc import Mapping

from agentjobs.advisories.findings import replace_findings
from agentjobs.organizations.authentication import Caller
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.version_choice import Choice
from tests.support.jobs import JobHarness
from tests.support.recorded_advisories import every_advisory

FIXES = {"requests": "2.31.0", "pyyaml": "5.4", "activerecord": "6.1.6.1"}


def dependency(ecosystem: str, name: str, version: str, manifest: str) -> Dependency:
    return Dependency(ecosystem, name, version, "", True, "runtime", manifest)


REQUESTS = dependency("PyPI", "requests", "2.25.0", "requirements.txt")
PYYAML = dependency("PyPI", "pyyaml", "5.3", "requirements.txt")


async def repo_of(harness: JobHarness, caller: Caller) -> str:
    row = await harness.db.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :id", id=caller.organization_id
    )
    assert row is not None
    return str(row["id"])


async def add_findings(
    harness: JobHarness,
    caller: Caller,
    *dependencies: Dependency,
    fixes: Mapping[str, str | None] = FIXES,
) -> str:
    """Insert findings as a scan does; returns the repository's identifier."""
    repo_id = await repo_of(harness, caller)
    findings = match_dependencies(dependencies, list(every_advisory()))
    choices = {each.package: Choice(fixes[each.name], "Because.", "registry") for each in findings}
    owner = caller.organization_id
    await harness.db.transact(replace_findings, owner, repo_id, findings, choices)
    return repo_id
