"""Vulnerabilities create jobs, one per fix, on both databases."""

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import pytest

from agentjobs.advisories.findings import findings_of_repo
from agentjobs.jobs.operations.auto_trigger import fixes_for, reconcile, triggers_for
from agentjobs.jobs.operations.auto_trigger_rows import FixKey, jobs_for_findings, take_over_fixes
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.platforms.protocol import PullRequest, PullRequestRequest
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.repos.thresholds import (
    load_thresholds,
    set_organization_threshold,
    set_repo_threshold,
)
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent, claim_job, job_harness
from tests.support.repo_rows import update_repos
from tests.support.stored_findings import (
    FIXES,
    PYYAML,
    REQUESTS,
    add_findings,
    dependency,
    repo_of,
)


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    harness = job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
    return harness


async def configure(tx: Transaction, repo_id: str, level: str | None) -> None:
    await update_repos(tx, "configured_trigger = :level", "r.id = :id", id=repo_id, level=level)


async def test_a_finding_at_the_threshold_creates_one_job_that_names_its_cause(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    assert await reconcile(harness.context, repo_id) == []
    await set_repo_threshold(harness.db, "acme", "acme/shop", "high")

    (job_id,) = await reconcile(harness.context, repo_id)
    job = await harness.view(acme, job_id)
    assert (job.agent, job.status, job.repo) == ("cve-fixer", "queued", "acme/shop")
    assert job.cause is not None
    assert (job.cause.package, job.cause.manifest, job.cause.fix_version) == (
        "pyyaml",
        "requirements.txt",
        "5.4",
    )
    assert job.cause.versions == ("5.3",)
    assert {advisory.severity for advisory in job.cause.advisories} == {"critical"}
    assert len({advisory.id for advisory in job.cause.advisories}) == 2
    assert await harness.events(acme, job_id) == ["job.queued"]

    claimed = await claim_job(harness.context, "wrk_a", ["cve-fixer"])
    assert claimed is not None
    assert claimed.cause == job.cause
    assert claimed.config_override == {"auto_trigger_on_cve_severity": "high"}


async def test_the_same_fix_is_never_proposed_twice_whatever_its_outcome(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "medium")
    at_once = await asyncio.gather(*(reconcile(harness.context, repo_id) for _ in range(4)))
    (job_id,) = [job_id for created in at_once for job_id in created]
    await cancel_job(harness.db, acme.organization_id, job_id)
    assert await reconcile(harness.context, repo_id) == []
    # A retry has the same request and cause.
    repeated = (await retry_job(harness.context, acme, job_id)).receipt.job_id
    assert (await harness.view(acme, repeated)).cause == (await harness.view(acme, job_id)).cause
    # Another version or another manifest is another fix.
    await add_findings(harness, acme, REQUESTS, fixes={"requests": "2.32.0"})
    assert len(await reconcile(harness.context, repo_id)) == 1
    await add_findings(
        harness, acme, dependency("PyPI", "requests", "2.25.0", "b/requirements.txt")
    )
    assert len(await reconcile(harness.context, repo_id)) == 1


async def test_the_more_severe_fix_comes_first_even_without_a_score(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    findings = [
        msgspec.structs.replace(each, score=None) if each.name == "pyyaml" else each
        for each in await findings_of_repo(harness.db, repo_id)
    ]
    triggers = triggers_for(fixes_for(reversed(findings)), "low", "none")
    assert [trigger.package for trigger in triggers] == ["pyyaml", "requests"]


async def test_a_package_is_one_job_for_all_files_and_each_has_its_own_version(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "medium")
    files = ("main.txt", "tests.txt", "web/requirements.txt")
    repo_id = await add_findings(
        harness, acme, *(dependency("PyPI", "requests", "2.25.0", name) for name in files)
    )
    (job_id,) = await reconcile(harness.context, repo_id)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    assert (cause.manifest, cause.fix_version) == ("main.txt", "2.31.0")
    assert [(fix.manifest, fix.fix_version) for fix in cause.fixes] == [
        (name, "2.31.0") for name in files
    ]
    assert len({advisory.id for advisory in cause.advisories}) == len(cause.advisories)
    assert cause.summary == "requests to 2.31.0"


@pytest.mark.parametrize(
    ("grouping", "expected"),
    [
        (None, [{"pyyaml@a", "pyyaml@b"}, {"lodash@c"}, {"requests@a"}]),
        ("directory", [{"pyyaml@a", "requests@a"}, {"pyyaml@b"}, {"lodash@c"}]),
        ("ecosystem", [{"pyyaml@a", "pyyaml@b", "requests@a"}, {"lodash@c"}]),
        ("severity", [{"pyyaml@a", "pyyaml@b", "requests@a", "lodash@c"}]),
    ],
)
async def test_a_repository_chooses_what_one_job_fixes(
    harness: JobHarness, grouping: str | None, expected: list[set[str]]
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "medium")
    repo_id = await add_findings(
        harness,
        acme,
        dependency("PyPI", "requests", "2.25.0", "a/requirements.txt"),
        dependency("PyPI", "pyyaml", "5.3", "a/requirements.txt"),
        dependency("PyPI", "pyyaml", "5.3", "b/requirements.txt"),
        dependency("npm", "lodash", "4.17.19", "c/package.json"),
        fixes={**FIXES, "lodash": "4.17.21"},
    )
    await harness.db.transact(_set_grouping, repo_id, grouping)
    causes = [
        (await harness.view(acme, job_id)).cause
        for job_id in await reconcile(harness.context, repo_id)
    ]
    groups = [
        {f"{fix.package}@{fix.manifest[0]}" for fix in cause.fixes} for cause in causes if cause
    ]
    assert groups == expected
    assert await reconcile(harness.context, repo_id) == []
    if grouping == "severity":
        assert causes[0] is not None
        assert causes[0].summary == "pyyaml and 2 more"


async def test_a_group_has_only_packages_that_reach_the_threshold(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    findings = await findings_of_repo(harness.db, repo_id)
    (trigger,) = triggers_for(fixes_for(findings), "high", "none", "severity")
    assert [fix.package for fix in trigger.fixes] == ["pyyaml"]


async def test_files_of_tests_and_examples_start_no_job(harness: JobHarness) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    fixture = dataclasses.replace(
        dependency("PyPI", "requests", "2.25.0", "examples/requirements.txt"), fixture=True
    )
    repo_id = await add_findings(harness, acme, fixture)
    assert len(await findings_of_repo(harness.db, repo_id)) == 1
    assert await reconcile(harness.context, repo_id) == []
    await add_findings(harness, acme, fixture, REQUESTS)
    (job_id,) = await reconcile(harness.context, repo_id)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    assert [fix.manifest for fix in cause.fixes] == ["requirements.txt"]


async def test_files_that_already_have_a_job_are_left_out(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "medium")
    assert len(await reconcile(harness.context, repo_id)) == 1
    other = dependency("PyPI", "requests", "2.25.0", "b/requirements.txt")
    await add_findings(harness, acme, REQUESTS, other)
    (job_id,) = await reconcile(harness.context, repo_id)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    assert [fix.manifest for fix in cause.fixes] == ["b/requirements.txt"]


async def test_an_unrated_finding_counts_as_the_severity_of_the_setting(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    findings = [
        msgspec.structs.replace(each, severity="unknown", score=None)
        for each in await findings_of_repo(harness.db, repo_id)
    ]
    fixes = list(fixes_for(findings))
    assert len(triggers_for(fixes, "medium", "medium")) == 1
    assert triggers_for(fixes, "high", "medium") == []
    assert triggers_for(fixes, "low", "none") == []


async def test_the_most_specific_threshold_applies(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "low")
    await set_repo_threshold(harness.db, "acme", "acme/shop", "critical")
    assert (await load_thresholds(harness.db, repo_id)).effective.level == "critical"
    assert await reconcile(harness.context, repo_id) == []
    await harness.db.transact(configure, repo_id, "none")
    assert (await load_thresholds(harness.db, repo_id)).effective.source == "file"
    assert await reconcile(harness.context, repo_id) == []
    await harness.db.transact(configure, repo_id, "medium")
    assert len(await reconcile(harness.context, repo_id)) == 1


async def test_findings_without_severity_fix_or_editable_manifest_create_no_job(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    gem = dependency("RubyGems", "activerecord", "6.1.6", "Gemfile.lock")
    repo_id = await add_findings(harness, acme, REQUESTS, gem, fixes={**FIXES, "requests": None})
    assert len(await findings_of_repo(harness.db, repo_id)) == 2
    assert await reconcile(harness.context, repo_id) == []


async def test_half_of_the_queue_is_reserved_for_requests_and_the_other_fixes_wait(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    await set_organization_threshold(harness.db, "acme", "low")
    harness.context.settings = msgspec.structs.replace(harness.context.settings, queue_limit=4)
    await harness.job(acme)
    for expected in ("pyyaml", "requests"):
        (job_id,) = await reconcile(harness.context, repo_id)
        cause = (await harness.view(acme, job_id)).cause
        assert cause is not None
        assert cause.package == expected
        assert await is_scanned_again(harness, repo_id) == (expected == "pyyaml")
        await cancel_job(harness.db, acme.organization_id, job_id)


async def is_scanned_again(harness: JobHarness, repo_id: str) -> bool:
    """And clears it, as the end of a scan does."""
    row = await harness.db.fetch_one(
        "SELECT due_at FROM scan_queue WHERE repo_id = :id", id=repo_id
    )
    assert row is not None
    await harness.db.transact(_make_not_due, repo_id)
    return row["due_at"] is not None and row["due_at"] > now_ms()


async def test_a_job_whose_fix_version_changed_takes_over_the_new_fix(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "low")
    (first,) = await reconcile(harness.context, repo_id)
    fix = ("requirements.txt", "PyPI", "requests", "2.32.0")
    for _ in range(2):
        assert await take_over_fixes(harness.db, repo_id, first, [fix]) == {}
    await add_findings(harness, acme, REQUESTS, fixes={"requests": "2.32.0"})
    assert await reconcile(harness.context, repo_id) == []


async def test_a_job_that_runs_or_has_an_open_pull_request_keeps_its_fixes(
    harness: JobHarness,
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "low")
    (first,) = await reconcile(harness.context, repo_id)
    fix = ("requirements.txt", "PyPI", "requests", "2.31.0")

    async def others(*created_for: FixKey) -> dict[FixKey, str]:
        other = await harness.job(acme)
        return await take_over_fixes(harness.db, repo_id, other, [fix], created_for)

    claimed = await claim_job(harness.context, "wrk_a", ["cve-fixer"])
    assert claimed is not None
    await start_job(harness.db, claimed, "0" * 40)
    assert await others(fix) == {fix: first}
    await finish_job(harness.db, claimed, Completed("http://x/1", 1, "1" * 40, draft=False))
    request = PullRequestRequest(
        head_branch=claimed.branch,
        base_branch="main",
        head_commit="1" * 40,
        base_commit="0" * 40,
        title="",
        body="",
    )
    pull = PullRequest(1, "http://x/1", draft=False)
    await harness.db.transact(record_pull, repo_id, request, pull)
    assert await others(fix) == {fix: first}
    await harness.db.transact(_close_pulls)
    # Only the job that was created for the fix may propose it again.
    assert await others() == {fix: first}
    assert await others(fix) == {}


async def test_a_job_that_has_not_started_or_failed_loses_its_fixes(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "low")
    (first,) = await reconcile(harness.context, repo_id)
    second, third = await harness.job(acme), await harness.job(acme)
    fix = ("requirements.txt", "PyPI", "requests", "2.31.0")
    assert await take_over_fixes(harness.db, repo_id, second, [fix]) == {}
    await cancel_job(harness.db, acme.organization_id, second)
    assert await take_over_fixes(harness.db, repo_id, third, [fix]) == {}
    jobs = await jobs_for_findings(harness.db, await findings_of_repo(harness.db, repo_id))
    assert {job.job_id for job in jobs.values()} == {third} != {first}


async def test_a_disconnected_repository_creates_no_job(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS)
    await set_organization_threshold(harness.db, "acme", "low")
    await harness.db.transact(_disconnect, repo_id)
    assert await reconcile(harness.context, repo_id) == []


async def test_setting_a_threshold_makes_the_repository_due_for_a_scan(harness: JobHarness) -> None:
    acme = await harness.organization()
    repo_id = await repo_of(harness, acme)
    await set_repo_threshold(harness.db, "acme", "acme/shop", "Moderate")
    row = await harness.db.fetch_one(
        "SELECT r.auto_trigger, q.due_at FROM repos r JOIN scan_queue q ON q.repo_id = r.id"
        " WHERE r.id = :id",
        id=repo_id,
    )
    assert row is not None
    assert (row["auto_trigger"], row["due_at"] < now_ms() + 1_000) == ("medium", True)
    with pytest.raises(Problem, match="low, medium, high, critical, none, default"):
        await set_repo_threshold(harness.db, "acme", "acme/shop", "severe")
    with pytest.raises(Problem):
        await set_repo_threshold(harness.db, "default", "acme/shop", "high")


async def _disconnect(tx: Transaction, repo_id: str) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1 WHERE id = :id", id=repo_id)


async def _set_grouping(tx: Transaction, repo_id: str, grouping: str | None) -> None:
    await update_repos(
        tx,
        "configured_grouping = :grouping",
        "r.id = :id",
        id=repo_id,
        grouping=grouping,
    )


async def _close_pulls(tx: Transaction) -> None:
    await tx.execute("UPDATE pulls SET state = 'closed'")


async def _make_not_due(tx: Transaction, repo_id: str) -> None:
    await tx.execute("UPDATE scan_queue SET due_at = NULL WHERE repo_id = :id", id=repo_id)
