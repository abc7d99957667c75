"""The button Fix: a job for one package of a repository, on both databases."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.advisories.findings import findings_of_repo
from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.jobs.operations.auto_trigger_rows import jobs_for_findings
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.package_fix import fix_package
from agentjobs.jobs.operations.proposed_fixes import ProposingPull, replace_proposed_fixes
from agentjobs.organizations.authentication import Caller
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent, job_harness
from tests.support.stored_findings import PYYAML, REQUESTS, add_findings, dependency


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    harness = job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
    return harness


async def finding_of(harness: JobHarness, repo_id: str, name: str) -> str:
    findings = await findings_of_repo(harness.db, repo_id)
    return next(each.id for each in findings if each.name == name)


async def fix(harness: JobHarness, caller: Caller, repo_id: str, name: str) -> str:
    return await fix_package(harness.context, caller, await finding_of(harness, repo_id, name))


async def test_a_fix_is_the_job_that_the_package_would_have_created_by_itself(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    other = dependency("PyPI", "requests", "2.25.0", "web/requirements.txt")
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML, other)
    job_id = await fix(harness, acme, repo_id, "requests")
    job = await harness.view(acme, job_id)
    assert (job.agent, job.status) == ("cve-fixer", "queued")
    assert job.cause is not None
    assert [(each.package, each.manifest, each.fix_version) for each in job.cause.fixes] == [
        ("requests", "requirements.txt", "2.31.0"),
        ("requests", "web/requirements.txt", "2.31.0"),
    ]
    # The service creates no second job for it.
    await set_organization_threshold(harness.db, "acme", "low")
    (automatic,) = await reconcile(harness.context, repo_id)
    cause = (await harness.view(acme, automatic)).cause
    assert cause is not None
    assert {each.package for each in cause.fixes} == {"pyyaml"}


async def test_a_fix_that_a_job_has_is_refused_until_the_job_ends(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    finding_id = await finding_of(harness, repo_id, "requests")

    async def fix_or_refuse() -> str:
        try:
            return await fix_package(harness.context, acme, finding_id)
        except Problem as problem:
            return problem.code

    at_once = await asyncio.gather(*(fix_or_refuse() for _ in range(4)))
    (job_id,) = [each for each in at_once if each != "fix_active"]
    with pytest.raises(Problem, match=f"The job {job_id} already fixes requests"):
        await fix_package(harness.context, acme, finding_id)
    await cancel_job(harness.db, acme.organization_id, job_id)
    again = await asyncio.gather(*(fix_or_refuse() for _ in range(4)))
    assert [each for each in again if each != "fix_active"] != [job_id]
    assert again.count("fix_active") == 3
    (job,) = {
        each.job_id: each
        for each in (
            await jobs_for_findings(harness.db, await findings_of_repo(harness.db, repo_id))
        ).values()
    }.values()
    assert job.job_id in again


async def test_a_fix_of_an_open_pull_request_is_refused(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    key = ("requirements.txt", "PyPI", "requests", "2.31.0")
    pull = ProposingPull(7, "https://github.test/acme/shop/pull/7")
    await harness.db.transact(replace_proposed_fixes, repo_id, {key: pull})
    with pytest.raises(Problem, match="pull/7 already fixes requests"):
        await fix(harness, acme, repo_id, "requests")


async def test_a_package_without_a_fix_is_refused_with_the_reason(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, fixes={"requests": None})
    with pytest.raises(Problem, match="No version of requests fixes it: Because"):
        await fix(harness, acme, repo_id, "requests")
    odd = dependency("PyPI", "requests", "2.25.0", "setup.cfg.odd")
    repo_id = await add_findings(harness, acme, odd)
    with pytest.raises(Problem, match="cannot edit setup"):
        await fix(harness, acme, repo_id, "requests")


async def test_fixtures_are_fixed_only_if_nothing_else_has_the_package(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    example = dependency("PyPI", "requests", "2.25.0", "examples/requirements.txt")
    repo_id = await add_findings(harness, acme, REQUESTS, example)
    await harness.db.transact(_make_fixtures)
    cause = (await harness.view(acme, await fix(harness, acme, repo_id, "requests"))).cause
    assert cause is not None
    assert [each.manifest for each in cause.fixes] == ["requirements.txt"]
    repo_id = await add_findings(harness, acme, example)
    await harness.db.transact(_make_fixtures)
    cause = (await harness.view(acme, await fix(harness, acme, repo_id, "requests"))).cause
    assert cause is not None
    assert [each.manifest for each in cause.fixes] == ["examples/requirements.txt"]


async def test_another_organization_cannot_fix_a_package(harness: JobHarness) -> None:
    acme, other = await harness.organization(), await harness.organization("other")
    repo_id = await add_findings(harness, acme, REQUESTS)
    with pytest.raises(Problem, match="no such vulnerability"):
        await fix(harness, other, repo_id, "requests")


async def _make_fixtures(tx: Transaction) -> None:
    await tx.execute("UPDATE findings SET fixture = TRUE WHERE manifest LIKE 'examples/%'")
