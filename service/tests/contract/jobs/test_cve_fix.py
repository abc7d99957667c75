"""What a run of the agent cve-fixer records about its fixes, on both databases."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.publishing.cve_fix import cve_fix
from agentjobs.publishing.cve_fix.cve_fix import CveFix
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.store.database import Database
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.fix_plan import Exposure, plan_fixes
from agentjobs_dependencies.version_choice import Choice
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent, claim_job, job_harness
from tests.support.recorded_advisories import every_advisory
from tests.support.stored_findings import FIXES, PYYAML, REQUESTS, add_findings, dependency


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    harness = job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
    return harness


def exposure(*packages: Any) -> Exposure:
    advisories = tuple(every_advisory())
    findings = tuple(match_dependencies(packages, advisories))
    return Exposure(packages, advisories, findings)


async def test_a_fix_that_was_requested_is_not_proposed_again_by_itself(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    await harness.job(acme, agent="cve-fixer")
    job = await claim_job(harness.context, "wrk_a", ["cve-fixer"])
    before = exposure(REQUESTS, PYYAML)
    choices = {f.package: Choice(FIXES[f.name], "", "registry") for f in before.findings}
    plan = plan_fixes(before, before.findings, choices, {"PyPI": ""})
    fixed = dependency("PyPI", "requests", "2.31.0", "requirements.txt")

    async def read_commit(*_: object) -> Exposure:
        return exposure(fixed, PYYAML)

    monkeypatch.setattr(cve_fix, "read_exposure", read_commit)
    notes: list[str] = []
    run: Any = SimpleNamespace(db=harness.db, job=job, log=SimpleNamespace(note=notes.append))
    await CveFix(run, plan.fixes, before).verify("0" * 40)
    assert "pyyaml 5.3 in requirements.txt is not fixed" in notes

    await set_organization_threshold(harness.db, "acme", "low")
    (created,) = await reconcile(harness.context, repo_id)
    cause = (await harness.view(acme, created)).cause
    assert cause is not None
    assert cause.package == "pyyaml"
