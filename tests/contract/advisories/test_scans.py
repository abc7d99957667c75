"""Scans and findings, on both stores."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentjobs.advisories import rows
from agentjobs.advisories.findings import (
    FindingView,
    count_by_severity,
    findings_of_repo,
    list_findings,
)
from agentjobs.advisories.model import Advisory, parse_advisory
from agentjobs.advisories.scans import ScanClaim, claim_due_scan, make_all_due
from agentjobs.advisories.version_choice import Choice, choose_version
from agentjobs.loops.scan_loop import ScanLoop
from agentjobs.store.database import Database, Transaction
from tests.support.findings import ORGANIZATION, add_repo, due_scans, make_due, set_dependencies
from tests.support.osv_records import CVSS_HIGH, LATER, record

CVSS_LOW = "CVSS:3.1/AV:L/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N"
PYSEC = record("PYSEC-1", "requests", "2.31.0", aliases=["CVE-1", "GHSA-1111"])
GHSA = record(
    "GHSA-1111", "requests", "2.31.0", aliases=["CVE-1"], vector=CVSS_HIGH, summary="A leak"
)
MINOR = record("GHSA-2222", "requests", "2.32.0", vector=CVSS_LOW)
UNRATED = record("GHSA-3333", "left-pad", "9.0.0", ecosystem="npm")
VULNERABLE = [("PyPI", "requests", "2.30.0"), ("npm", "left-pad", "1.0.0")]


class Offline:
    """The real choice, as without a registry; it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    async def choose(
        self, ecosystem: str, name: str, version: str, advisories: Sequence[Advisory]
    ) -> Choice:
        self.asked.append((ecosystem, name, version))
        return choose_version(ecosystem, name, version, advisories, None)


class House:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.chooser = Offline()
        self.acted_on: list[str] = []
        self.loop = ScanLoop(db, self.chooser, self.act)

    async def act(self, repo_id: str) -> None:
        self.acted_on.append(repo_id)

    async def put(self, *records: dict[str, Any]) -> None:
        advisories = [one for one in map(parse_advisory, records) if one is not None]
        await self.db.transact(rows.put, "PyPI", 1, advisories)

    async def scan(self, repo_id: str) -> list[FindingView]:
        await self.db.transact(make_due, repo_id)
        assert await self.loop.scan_one()
        return await findings_of_repo(self.db, repo_id)


@pytest.fixture
async def house(database: Database) -> House:
    house = House(database)
    await house.put(PYSEC, GHSA, MINOR, UNRATED)
    return house


def ids_of(findings: Sequence[FindingView]) -> list[str]:
    return [finding.advisory_id for finding in findings]


async def test_each_vulnerability_of_a_package_is_one_finding_with_its_fix(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)
    high, low, unrated = await house.scan(repo_id)
    assert (high.advisory_id, high.aliases) == ("GHSA-1111", ("CVE-1", "PYSEC-1"))
    assert [one.id for one in high.advisories] == ["GHSA-1111", "PYSEC-1"]
    assert {one.severity for one in high.advisories} == {"high"}
    assert (high.advisories[0].ranges, high.advisories[0].fixed) == ("< 2.31.0", ("2.31.0",))
    assert (high.severity, high.score, high.summary) == ("high", 7.5, "A leak")
    assert (high.repo, high.manifest, high.direct) == ("acme/shop", "PyPI.lock", True)
    assert (low.severity, low.fix_version) == ("low", "2.32.0")
    assert high.fix_version == "2.32.0", "one version ends all findings of the package"
    assert (unrated.advisory_id, unrated.severity, unrated.score) == ("GHSA-3333", "unknown", None)
    assert sorted(house.chooser.asked) == sorted(VULNERABLE)
    assert house.acted_on == [repo_id]


async def test_fixed_and_unpinned_packages_have_no_findings(house: House) -> None:
    versions = ["2.32.0", None, "no version", ""]
    packages = [("PyPI", "requests", version) for version in versions]
    assert await house.scan(await add_repo(house.db, "acme/shop", packages)) == []


async def test_a_finding_keeps_its_id_until_it_is_resolved(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)
    before = await house.scan(repo_id)
    assert await house.scan(repo_id) == before
    await house.put(record("GHSA-2222", "requests", "2.33.0", vector=CVSS_HIGH, modified=LATER))
    after = await house.scan(repo_id)
    assert {one.id for one in after} == {one.id for one in before}
    changed = next(one for one in after if one.advisory_id == "GHSA-2222")
    assert (changed.severity, changed.fix_version) == ("high", "2.33.0")
    assert {one.first_seen_at for one in after} == {one.first_seen_at for one in before}
    await house.db.transact(set_dependencies, repo_id, VULNERABLE[1:])
    assert ids_of(await house.scan(repo_id)) == ["GHSA-3333"]


async def test_a_scan_is_finished_only_after_its_actions(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)
    await house.scan(repo_id)
    assert await claim_due_scan(house.db) is None
    row = await house.db.fetch_one("SELECT scan_due_at, scanned_at FROM repos")
    assert row is not None
    assert (row["scan_due_at"], row["scanned_at"] is None) == (None, False)


async def test_changes_during_a_scan_cause_another_scan(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)

    async def change(_repo_id: str) -> None:
        await house.db.transact(make_due, repo_id)

    house.loop = ScanLoop(house.db, house.chooser, change)
    await house.scan(repo_id)
    assert await due_scans(house.db) == [repo_id]


async def test_a_repository_is_scanned_by_one_process_at_a_time(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)
    await house.db.transact(make_due, repo_id)
    scan = await claim_due_scan(house.db)
    assert scan is not None
    assert await claim_due_scan(house.db) is None
    claim = ScanClaim(house.db, scan)
    await claim.renew()
    await claim.finish()
    assert await claim_due_scan(house.db) is None


async def test_a_failed_scan_is_stored_and_retried(house: House) -> None:
    broken = await add_repo(house.db, "acme/broken", VULNERABLE)
    fine = await add_repo(house.db, "acme/fine", VULNERABLE)

    async def act(repo_id: str) -> None:
        if repo_id == broken:
            raise KeyError("a fault of ours")

    house.loop = ScanLoop(house.db, house.chooser, act)
    await house.db.transact(make_due, broken)
    await house.db.transact(make_due, fine)
    assert [await house.loop.scan_one() for _ in range(3)] == [True, True, False]
    rows_ = await house.db.fetch_all("SELECT id, scan_error, scan_due_at FROM repos")
    errors = {row["id"]: row["scan_error"] for row in rows_}
    assert "a fault of ours" in errors[broken]
    assert errors[fine] is None


async def test_starting_a_service_makes_every_indexed_repository_due(house: House) -> None:
    repo_id = await add_repo(house.db, "acme/shop", VULNERABLE)
    await make_all_due(house.db)
    assert await due_scans(house.db) == [repo_id]
    assert await house.loop.scan_one()
    await house.db.transact(_disconnect)
    await make_all_due(house.db)
    assert await claim_due_scan(house.db) is None


async def test_findings_of_an_organization_are_listed_worst_first(house: House) -> None:
    shop = await add_repo(house.db, "acme/shop", VULNERABLE)
    site = await add_repo(house.db, "acme/site", VULNERABLE[:1])
    other = await add_repo(house.db, "other/shop", VULNERABLE, "org_other")
    for repo_id in (shop, site, other):
        await house.scan(repo_id)

    async def listed(**wanted: Any) -> list[str]:
        return ids_of(await list_findings(house.db, ORGANIZATION, **wanted))

    high, low, unrated = "GHSA-1111", "GHSA-2222", "GHSA-3333"
    assert await listed() == [high, high, low, low, unrated]
    assert await listed(repo_id=site) == [high, low]
    assert await listed(repo_id=other) == []
    assert await listed(severity="low") == [low, low]
    assert await listed(search="LEFT") == [unrated]
    assert await listed(search="cve-1") == [high, high]
    assert await listed(search="acme/site") == [high, low]
    assert await listed(search="100%") == []
    counted = await count_by_severity(house.db, ORGANIZATION)
    assert counted == {"critical": 0, "high": 2, "medium": 0, "low": 2, "unknown": 1}
    assert (await count_by_severity(house.db, ORGANIZATION, repo_id=site))["high"] == 1


async def test_pages_of_findings_follow_each_other(house: House) -> None:
    for name in ("acme/one", "acme/two"):
        await house.scan(await add_repo(house.db, name, VULNERABLE))
    every = await list_findings(house.db, ORGANIZATION)
    paged: list[FindingView] = []
    while page := await list_findings(
        house.db, ORGANIZATION, limit=2, after=paged[-1].cursor if paged else None
    ):
        paged += page
    assert paged == every
    assert len(every) == 6
    await house.db.transact(_disconnect)
    assert await list_findings(house.db, ORGANIZATION, after="nonsense") == []


async def _disconnect(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1")
