"""Scans and findings, on both stores."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentjobs.advisories import rows
from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import (
    FindingView,
    count_findings,
    findings_of_repo,
    list_findings,
)
from agentjobs.advisories.packages import (
    VulnerablePackage,
    findings_of_package,
    list_packages,
)
from agentjobs.advisories.scans import ScanClaim, claim_due_scan, make_all_due
from agentjobs.loops.scan_loop import ScanLoop
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Transaction
from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from agentjobs_dependencies.version_choice import Choice, choose_version
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.findings import ORGANIZATION, add_repo, due_scans, make_due, set_dependencies
from tests.support.osv_records import CVSS_HIGH, LATER, record
from tests.support.repo_rows import update_repos

CVSS_LOW = "CVSS:3.1/AV:L/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N"
PYSEC = record("PYSEC-1", "requests", "2.31.0", aliases=["CVE-1", "GHSA-1111"])
GHSA = record(
    "GHSA-1111", "requests", "2.31.0", aliases=["CVE-1"], vector=CVSS_HIGH, summary="A leak"
)
MINOR = record("GHSA-2222", "requests", "2.32.0", vector=CVSS_LOW)
UNRATED = record("GHSA-3333", "left-pad", "9.0.0", ecosystem="npm")
VULNERABLE = [("PyPI", "requests", "2.30.0"), ("npm", "left-pad", "1.0.0")]


class OfflineVersionChooser:
    """Chooses versions without a registry and records each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []

    async def choose(
        self,
        ecosystem: str,
        name: str,
        version: str,
        advisories: Sequence[Advisory],
        candidates: int = 1,  # noqa: ARG002 - of the protocol
    ) -> Choice:
        self.requests.append((ecosystem, name, version))
        return choose_version(ecosystem, name, version, advisories, None)


class ScanHarness:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.chooser = OfflineVersionChooser()
        self.acted_on_repo_ids: list[str] = []
        self.loop = ScanLoop(db, self.chooser, self.act)

    async def act(self, repo_id: str) -> None:
        self.acted_on_repo_ids.append(repo_id)

    async def put(self, *records: dict[str, Any]) -> None:
        advisories = [advisory for advisory in map(parse_advisory, records) if advisory is not None]
        await self.db.transact(rows.put, "PyPI", 1, advisories)

    async def scan(self, repo_id: str) -> list[FindingView]:
        await self.db.transact(make_due, repo_id)
        assert await self.loop.scan_one()
        return await findings_of_repo(self.db, repo_id)


@pytest.fixture
async def harness(database: Database) -> ScanHarness:
    harness = ScanHarness(database)
    await harness.put(PYSEC, GHSA, MINOR, UNRATED)
    return harness


def ids_of(findings: Sequence[FindingView]) -> list[str]:
    return [finding.advisory_id for finding in findings]


async def test_each_vulnerability_of_a_package_is_one_finding_with_its_fix(
    harness: ScanHarness,
) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)
    high, low, unrated = await harness.scan(repo_id)
    assert (high.advisory_id, high.aliases) == ("GHSA-1111", ("CVE-1", "PYSEC-1"))
    assert [advisory.id for advisory in high.advisories] == ["GHSA-1111", "PYSEC-1"]
    assert {advisory.severity for advisory in high.advisories} == {"high"}
    assert (high.advisories[0].ranges, high.advisories[0].fixed) == ("< 2.31.0", ("2.31.0",))
    assert (high.severity, high.score, high.summary) == ("high", 7.5, "A leak")
    assert (high.repo, high.manifest, high.direct) == ("acme/shop", "PyPI.lock", True)
    assert (low.severity, low.fix_version) == ("low", "2.32.0")
    assert high.fix_version == "2.32.0", "one version ends all findings of the package"
    assert (unrated.advisory_id, unrated.severity, unrated.score) == ("GHSA-3333", "unknown", None)
    assert sorted(harness.chooser.requests) == sorted(VULNERABLE)
    assert harness.acted_on_repo_ids == [repo_id]


async def test_fixed_and_unpinned_packages_have_no_findings(harness: ScanHarness) -> None:
    versions = ["2.32.0", None, "no version", ""]
    packages = [("PyPI", "requests", version) for version in versions]
    assert await harness.scan(await add_repo(harness.db, "acme/shop", packages)) == []


async def test_a_finding_keeps_its_id_until_it_is_resolved(harness: ScanHarness) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)
    before = await harness.scan(repo_id)
    assert await harness.scan(repo_id) == before
    await harness.put(record("GHSA-2222", "requests", "2.33.0", vector=CVSS_HIGH, modified=LATER))
    after = await harness.scan(repo_id)
    assert {finding.id for finding in after} == {finding.id for finding in before}
    changed = next(finding for finding in after if finding.advisory_id == "GHSA-2222")
    assert (changed.severity, changed.fix_version) == ("high", "2.33.0")
    assert {finding.first_seen_at for finding in after} == {
        finding.first_seen_at for finding in before
    }
    await harness.db.transact(set_dependencies, repo_id, VULNERABLE[1:])
    assert ids_of(await harness.scan(repo_id)) == ["GHSA-3333"]


async def test_a_scan_is_finished_only_after_its_actions(harness: ScanHarness) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)
    await harness.scan(repo_id)
    assert await claim_due_scan(harness.db) is None
    row = await harness.db.fetch_one("SELECT due_at FROM scan_queue")
    assert row is not None
    assert row["due_at"] is None


async def test_changes_during_a_scan_cause_another_scan(harness: ScanHarness) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)

    async def change(_repo_id: str) -> None:
        await harness.db.transact(make_due, repo_id)

    harness.loop = ScanLoop(harness.db, harness.chooser, change)
    await harness.scan(repo_id)
    assert await due_scans(harness.db) == [repo_id]


async def test_a_repository_is_scanned_by_one_process_at_a_time(harness: ScanHarness) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)
    await harness.db.transact(make_due, repo_id)
    scan = await claim_due_scan(harness.db)
    assert scan is not None
    assert await claim_due_scan(harness.db) is None
    claim = ScanClaim(harness.db, scan)
    await claim.renew()
    await claim.release(None)
    assert await claim_due_scan(harness.db) is None


async def test_a_failed_scan_is_retried(harness: ScanHarness) -> None:
    broken = await add_repo(harness.db, "acme/broken", VULNERABLE)
    fine = await add_repo(harness.db, "acme/fine", VULNERABLE)

    async def act(repo_id: str) -> None:
        if repo_id == broken:
            raise KeyError("a fault of ours")

    harness.loop = ScanLoop(harness.db, harness.chooser, act)
    await harness.db.transact(make_due, broken)
    await harness.db.transact(make_due, fine)
    assert [await harness.loop.scan_one() for _ in range(3)] == [True, True, False]
    rows_ = await harness.db.fetch_all("SELECT repo_id, due_at FROM scan_queue")
    due_at = {row["repo_id"]: row["due_at"] for row in rows_}
    assert due_at[broken] > now_ms() + 60_000
    assert due_at[fine] is None


async def test_starting_a_service_makes_every_indexed_repository_due(harness: ScanHarness) -> None:
    repo_id = await add_repo(harness.db, "acme/shop", VULNERABLE)
    await make_all_due(harness.db)
    assert await due_scans(harness.db) == [repo_id]
    assert await harness.loop.scan_one()
    await harness.db.transact(_disconnect)
    await make_all_due(harness.db)
    assert await claim_due_scan(harness.db) is None


async def test_findings_of_an_organization_are_listed_worst_first(harness: ScanHarness) -> None:
    shop = await add_repo(harness.db, "acme/shop", VULNERABLE)
    site = await add_repo(harness.db, "acme/site", VULNERABLE[:1])
    other = await add_repo(harness.db, "other/shop", VULNERABLE, "org_other")
    for repo_id in (shop, site, other):
        await harness.scan(repo_id)

    async def list_ids(**filters: Any) -> list[str]:
        return ids_of(await list_findings(harness.db, ORGANIZATION, FindingFilter(**filters)))

    high, low, unrated = "GHSA-1111", "GHSA-2222", "GHSA-3333"
    assert await list_ids() == [high, high, low, low, unrated]
    assert await list_ids(repo_id=site) == [high, low]
    assert await list_ids(repo_id=other) == []
    assert await list_ids(severity="low") == [low, low]
    assert await list_ids(search="LEFT") == [unrated]
    assert await list_ids(search="cve-1") == [high, high]
    assert await list_ids(search="acme/site") == [high, low]
    assert await list_ids(search="100%") == []
    counts = await count_findings(harness.db, ORGANIZATION)
    assert counts.by_severity == {"critical": 0, "high": 2, "medium": 0, "low": 2, "unknown": 1}
    assert (counts.total, counts.fixtures) == (5, 0)
    counts = await count_findings(harness.db, ORGANIZATION, repo_id=site)
    assert counts.by_severity["high"] == 1


async def test_findings_in_fixtures_are_counted_and_listed_apart(harness: ScanHarness) -> None:
    shop = await add_repo(harness.db, "acme/shop", VULNERABLE)
    await harness.scan(shop)
    before = await list_findings(harness.db, ORGANIZATION)
    await harness.db.transact(_make_fixtures, shop)
    await harness.scan(shop)
    after = await list_findings(harness.db, ORGANIZATION)
    assert [finding.id for finding in after] == [finding.id for finding in before]
    assert {(finding.fixture, finding.imported) for finding in before} == {(False, "unknown")}
    assert {(finding.fixture, finding.imported) for finding in after} == {(True, "no")}
    assert await list_findings(harness.db, ORGANIZATION, FindingFilter(fixture=True)) == after
    assert await list_findings(harness.db, ORGANIZATION, FindingFilter(fixture=False)) == []
    assert await list_findings(harness.db, ORGANIZATION, FindingFilter(imported="no")) == after
    assert await list_findings(harness.db, ORGANIZATION, FindingFilter(imported="unknown")) == []
    counts = await count_findings(harness.db, ORGANIZATION)
    assert (counts.total, counts.fixtures) == (0, len(after))


async def _make_fixtures(tx: Transaction, repo_id: str) -> None:
    await tx.execute(
        "UPDATE dependencies SET fixture = TRUE, imported = 'no' WHERE repo_id = :id", id=repo_id
    )


async def test_pages_of_findings_follow_each_other(harness: ScanHarness) -> None:
    for name in ("acme/one", "acme/two"):
        await harness.scan(await add_repo(harness.db, name, VULNERABLE))
    all_findings = await list_findings(harness.db, ORGANIZATION)
    findings: list[FindingView] = []
    while page := await list_findings(
        harness.db, ORGANIZATION, limit=2, after=findings[-1].cursor if findings else None
    ):
        findings += page
    assert findings == all_findings
    assert len(all_findings) == 6
    await harness.db.transact(_disconnect)
    assert await list_findings(harness.db, ORGANIZATION, after="nonsense") == []


async def test_packages_have_the_findings_of_one_repository_about_them(
    harness: ScanHarness,
) -> None:
    for name in ("acme/one", "acme/two"):
        await harness.scan(await add_repo(harness.db, name, VULNERABLE))
    everything = await list_packages(harness.db, ORGANIZATION, FindingFilter(), limit=10)
    assert [
        (each.worst.repo, each.worst.name, each.worst.severity, each.advisories, each.fixable)
        for each in everything
    ] == [
        ("acme/one", "requests", "high", 2, 2),
        ("acme/two", "requests", "high", 2, 2),
        ("acme/one", "left-pad", "unknown", 1, 1),
        ("acme/two", "left-pad", "unknown", 1, 1),
    ]
    assert ids_of(everything[0].findings) == ["GHSA-1111", "GHSA-2222"]
    packages: list[VulnerablePackage] = []
    while page := await list_packages(
        harness.db,
        ORGANIZATION,
        FindingFilter(),
        limit=1,
        after=packages[-1].cursor if packages else None,
    ):
        packages += page
    assert packages == everything
    (low,) = await list_packages(
        harness.db, ORGANIZATION, FindingFilter(severity="low", search="acme/two"), limit=10
    )
    assert (low.worst.repo, ids_of(low.findings)) == ("acme/two", ["GHSA-2222"])
    same = await findings_of_package(harness.db, ORGANIZATION, low.id)
    assert ids_of(same) == ["GHSA-1111", "GHSA-2222"]
    assert {each.repo for each in same} == {"acme/two"}
    with pytest.raises(Problem, match="no such vulnerability"):
        await findings_of_package(harness.db, "org_other", low.id)


async def _disconnect(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1")


async def test_an_organization_with_few_repositories_does_not_wait_for_one_with_many(
    harness: ScanHarness,
) -> None:
    other = await create_organization(harness.db, Plans(DEFAULT_PLANS), "few", "free")
    many = [await add_repo(harness.db, f"acme/{number}", VULNERABLE) for number in range(3)]
    few = await add_repo(harness.db, "few/shop", VULNERABLE, other.id)
    for due_at, repo_id in enumerate((*many, few), 1):
        await harness.db.transact(_due_since, repo_id, due_at)
    while await harness.loop.scan_one():
        pass
    assert harness.acted_on_repo_ids == [many[0], few, *many[1:]]


async def _due_since(tx: Transaction, repo_id: str, due_at: int) -> None:
    await update_repos(tx, "scan_due_at = :due_at", "r.id = :id", id=repo_id, due_at=due_at)
