"""Dismissed and snoozed vulnerabilities start no jobs and are not counted, on both databases."""

from pathlib import Path

import pytest

from agentjobs.advisories.decisions import NewDecision, RepoPackage, decide, reopen
from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import count_findings, findings_of_repo, list_findings
from agentjobs.advisories.packages import find_finding, list_packages
from agentjobs.advisories.scans import claim_due_scan
from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.authentication import Caller
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent, job_harness
from tests.support.repo_rows import update_repos
from tests.support.stored_findings import PYYAML, REQUESTS, add_findings

DISMISSED = NewDecision(reason="not_reachable", note="Only in a script.")


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    harness = job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
    return harness


@pytest.fixture
async def acme(harness: JobHarness) -> Caller:
    return await harness.organization()


@pytest.fixture
async def repo_id(harness: JobHarness, acme: Caller) -> str:
    await set_organization_threshold(harness.db, "acme", "low")
    return await add_findings(harness, acme, REQUESTS, PYYAML)


def package_of(caller: Caller, repo_id: str, name: str = "requests") -> RepoPackage:
    return RepoPackage(caller.organization_id, repo_id, "acme/shop", "PyPI", name)


async def advisories_of(harness: JobHarness, repo_id: str, name: str = "requests") -> set[str]:
    findings = await findings_of_repo(harness.db, repo_id)
    return {each.advisory_id for each in findings if each.name == name}


async def packages_of_jobs(harness: JobHarness, acme: Caller, repo_id: str) -> set[str]:
    causes = [
        (await harness.view(acme, job_id)).cause
        for job_id in await reconcile(harness.context, repo_id)
    ]
    return {cause.package for cause in causes if cause is not None}


async def test_a_dismissed_package_starts_no_job_until_it_is_reopened(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    advisories = await advisories_of(harness, repo_id)
    await decide(harness.db, package_of(acme, repo_id), advisories, DISMISSED)
    assert await packages_of_jobs(harness, acme, repo_id) == {"pyyaml"}
    # Scans replace findings; decisions stay.
    await add_findings(harness, acme, REQUESTS, PYYAML)
    assert await packages_of_jobs(harness, acme, repo_id) == set()
    await reopen(harness.db, package_of(acme, repo_id), advisories)
    assert await packages_of_jobs(harness, acme, repo_id) == {"requests"}


async def test_reopening_what_is_open_changes_nothing(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    await harness.db.transact(_index)
    await reopen(harness.db, package_of(acme, repo_id), await advisories_of(harness, repo_id))
    assert await claim_due_scan(harness.db) is None
    wanted = AuditFilter(action="vulnerability")
    assert not await list_entries(harness.db, acme.organization_id, wanted, limit=10)


async def test_a_finding_is_found_however_many_others_its_package_has(
    harness: JobHarness, acme: Caller, repo_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentjobs.advisories.packages._MAX_FINDINGS", 1)
    for finding in await findings_of_repo(harness.db, repo_id):
        same = await find_finding(harness.db, acme.organization_id, finding.id)
        assert same == finding


async def test_a_package_with_another_vulnerability_still_starts_a_job(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    one = min(await advisories_of(harness, repo_id, "pyyaml"))
    await decide(harness.db, package_of(acme, repo_id, "pyyaml"), {one}, DISMISSED)
    assert await packages_of_jobs(harness, acme, repo_id) == {"pyyaml", "requests"}


async def test_what_is_dismissed_is_listed_and_counted_apart(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    owner = acme.organization_id
    everything = await count_findings(harness.db, owner)
    advisories = await advisories_of(harness, repo_id)
    await decide(harness.db, package_of(acme, repo_id), advisories, DISMISSED)
    counts = await count_findings(harness.db, owner, repo_id=repo_id)
    assert counts.decided == len(advisories)
    assert counts.total == everything.total - len(advisories)
    for decided, names in ((True, {"requests"}), (False, {"pyyaml"}), (None, None)):
        wanted = FindingFilter(decided=decided)
        findings = await list_findings(harness.db, owner, wanted)
        packages = await list_packages(harness.db, owner, wanted, limit=10)
        listed = {each.name for each in findings}
        assert listed == {each.worst.name for each in packages}
        assert listed == (names or {"requests", "pyyaml"})
    decision = next(
        each.decision for each in await findings_of_repo(harness.db, repo_id) if each.decision
    )
    assert (decision.state, decision.reason, decision.note, decision.until) == (
        *("dismissed", "not_reachable", "Only in a script."),
        None,
    )
    entries = await list_entries(harness.db, owner, AuditFilter(action="vulnerability"), limit=10)
    assert [each.action for each in entries] == ["vulnerability.dismissed"]
    assert entries[0].target == "requests in acme/shop"


async def test_a_snoozed_vulnerability_returns_when_its_time_ends(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    snoozed = NewDecision(reason="fix_later", until=now_ms() + 7 * DAY_MS)
    for name in ("requests", "pyyaml"):
        advisories = await advisories_of(harness, repo_id, name)
        await decide(harness.db, package_of(acme, repo_id, name), advisories, snoozed)
    await harness.db.transact(_index)
    assert (await count_findings(harness.db, acme.organization_id)).total == 0
    assert await packages_of_jobs(harness, acme, repo_id) == set()
    assert await claim_due_scan(harness.db) is None
    await harness.db.transact(_end_snooze_of, "requests")
    # Before the decision is forgotten, too.
    assert (await count_findings(harness.db, acme.organization_id)).total > 0
    scan = await claim_due_scan(harness.db)
    assert scan is not None
    assert scan.repo_id == repo_id
    assert await packages_of_jobs(harness, acme, repo_id) == {"requests"}
    rows = await harness.db.fetch_all("SELECT DISTINCT name FROM finding_decisions")
    assert [row["name"] for row in rows] == ["pyyaml"]


async def test_a_decision_stays_with_a_vulnerability_that_gets_another_main_advisory(
    harness: JobHarness, acme: Caller, repo_id: str
) -> None:
    finding = next(each for each in await findings_of_repo(harness.db, repo_id) if each.aliases)
    package = package_of(acme, repo_id, finding.name)
    await decide(harness.db, package, {finding.aliases[0]}, DISMISSED)
    assert (await count_findings(harness.db, acme.organization_id)).decided == 0
    await add_findings(harness, acme, REQUESTS, PYYAML)
    assert (await count_findings(harness.db, acme.organization_id)).decided == 1


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (NewDecision(reason="lazy"), "reason must be one of not_reachable"),
        (NewDecision(reason="fix_later", note="x" * 1_001), "at most 1,000 characters"),
        (NewDecision(reason="fix_later", until=1), "in the future"),
    ],
)
async def test_an_invalid_decision_is_refused(
    harness: JobHarness, acme: Caller, repo_id: str, decision: NewDecision, message: str
) -> None:
    with pytest.raises(Problem, match=message):
        await decide(harness.db, package_of(acme, repo_id), {"GHSA-1"}, decision)
    assert await harness.db.fetch_all("SELECT * FROM finding_decisions") == []


async def _index(tx: Transaction) -> None:
    await update_repos(tx, "indexed_commit = 'c', scan_due_at = NULL")


async def _end_snooze_of(tx: Transaction, name: str) -> None:
    await tx.execute(
        "UPDATE finding_decisions SET until = :now WHERE name = :name", now=now_ms(), name=name
    )
