"""Scans repositories: matches their dependencies with the advisories and stores findings.

Changes of dependencies or advisories make a repository due in `scan_queue`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from agentjobs.advisories.decisions import end_snoozes
from agentjobs.advisories.findings import replace_findings
from agentjobs.advisories.rows import advisories_for
from agentjobs.inventory.dependencies import dependency_view
from agentjobs.repos.queues import SCAN, request_scan, request_scans
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs.store.leases import Lease
from agentjobs_dependencies.advisories.dependency_matching import (
    Finding,
    Package,
    match_dependencies,
)
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.version_choice import Choice, VersionChooser, choose_versions
from agentjobs_runtime.clock import SECOND_MS

_BACKOFF_MS = 5 * 60 * SECOND_MS
# Enough for queued jobs to start, and for registries to recover.
_RESCAN_MS = 15 * 60 * SECOND_MS
_NAMES_AT_ONCE = 1_000


class DueScan(msgspec.Struct, frozen=True):
    """`until` is the end of the claim; another due time means that a new scan was requested."""

    repo_id: str
    organization_id: str
    until: int


class ScanClaim(Lease):
    def __init__(self, db: Database, scan: DueScan) -> None:
        super().__init__(db, SCAN, scan.repo_id, scan.until)

    async def renew(self) -> bool:
        """True even if a new scan was requested, because this one is still useful."""
        await super().renew()
        return True

    async def fail(self) -> None:
        await self._db.transact(request_scan, self.row_id, _BACKOFF_MS)


@in_transaction
async def claim_due_scan(tx: Transaction, left_out: Collection[str] = ()) -> DueScan | None:
    """Claim the repository that has been due longest; it is due again when the lease expires.

    Those of the organizations `left_out` are not claimed.
    """
    await end_snoozes(tx, await tx.clock_ms())
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT r.id, r.organization_id FROM scan_queue q JOIN repos r ON r.id = q.repo_id"
        " JOIN repo_index i ON i.repo_id = q.repo_id"
        " WHERE q.due_at IS NOT NULL AND q.due_at <= :now"
        " AND r.disconnected_at IS NULL AND i.indexed_commit IS NOT NULL"
        " AND r.organization_id NOT IN (SELECT value FROM each(:left_out))"
        " ORDER BY q.due_at LIMIT 1 /*postgresql FOR UPDATE OF q SKIP LOCKED */",
        now=now,
        left_out=list(left_out),
    )
    if row is None:
        return None
    return DueScan(row["id"], row["organization_id"], await SCAN.claim(tx, row["id"]))


@in_transaction
async def make_all_due(tx: Transaction) -> None:
    """Called when a service starts, because an earlier one may have stopped during a scan."""
    # A scan that another process has claimed keeps its lease.
    await request_scans(tx, "TRUE", unless_due=True)


async def request_ecosystem_scans(tx: Transaction, ecosystems: Collection[str]) -> None:
    """Make repositories due that depend on the ecosystems."""
    if ecosystems:
        await request_scans(
            tx,
            "EXISTS (SELECT 1 FROM dependencies d WHERE d.repo_id = r.id"
            " AND d.ecosystem IN (SELECT value FROM each(:ecosystems)))",
            ecosystems=sorted(ecosystems),
        )


@in_transaction
async def schedule_rescan(tx: Transaction, repo_id: str) -> None:
    """Scan again later, because an action on the findings could not be completed."""
    await request_scan(tx, repo_id, _RESCAN_MS)


async def scan_repository(db: Database, scan: DueScan, chooser: VersionChooser) -> int:
    """Returns the number of findings. The caller must finish the claim."""
    dependencies = await load_dependencies(db, scan.repo_id)
    advisories = await load_advisories(db, dependencies)
    findings = await asyncio.to_thread(match_dependencies, dependencies, advisories)
    choices = await choose_versions(chooser, findings, advisories)
    await db.transact(_store, scan, findings, choices)
    return len(findings)


async def load_dependencies(db: Database, repo_id: str) -> list[Dependency]:
    rows = await db.fetch_all(
        "SELECT * FROM dependencies WHERE repo_id = :repo_id ORDER BY position", repo_id=repo_id
    )
    return [dependency_view(row) for row in rows]


async def load_advisories(db: Database, dependencies: Sequence[Dependency]) -> list[Advisory]:
    """Loads advisories and related records of the same vulnerabilities, without duplicates."""
    names: dict[str, set[str]] = defaultdict(set)
    for dependency in dependencies:
        if dependency.version is not None:
            names[dependency.ecosystem].add(dependency.name)
    advisories: dict[str, Advisory] = {}
    for ecosystem, unordered in names.items():
        ordered = sorted(unordered)
        for start in range(0, len(ordered), _NAMES_AT_ONCE):
            batch = await advisories_for(db, ecosystem, ordered[start : start + _NAMES_AT_ONCE])
            advisories.update({advisory.id: advisory for advisory in batch})
    return list(advisories.values())


async def _store(
    tx: Transaction,
    scan: DueScan,
    findings: Sequence[Finding],
    choices: Mapping[Package, Choice],
) -> None:
    # Lock the row: two concurrent scans would insert the same findings.
    row = await tx.fetch_one(
        "SELECT disconnected_at FROM repos WHERE id = :id /*postgresql FOR UPDATE */",
        id=scan.repo_id,
    )
    if row is None or row["disconnected_at"] is not None:
        return
    await replace_findings(tx, scan.organization_id, scan.repo_id, findings, choices)
    tx.announce("findings")
