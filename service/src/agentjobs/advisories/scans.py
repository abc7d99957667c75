"""Scans repositories: matches their dependencies with the advisories and stores findings.

`scan_due_at` serves as queue, lease and backoff. Changes of dependencies or advisories set it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from agentjobs.advisories.decisions import end_snoozes
from agentjobs.advisories.findings import replace_findings
from agentjobs.advisories.rows import advisories_for
from agentjobs.inventory.dependencies import dependency_view
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs.store.leases import DueColumn, Lease
from agentjobs_dependencies.advisories.dependency_matching import (
    Finding,
    Package,
    match_dependencies,
)
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.version_choice import Choice, VersionChooser, choose_versions
from agentjobs_runtime.clock import SECOND_MS

DUE = DueColumn("repos", "id", "scan_due_at", 60 * SECOND_MS)
_BACKOFF_MS = 5 * 60 * SECOND_MS
# Enough for queued jobs to start, and for registries to recover.
_RESCAN_MS = 15 * 60 * SECOND_MS
_NAMES_AT_ONCE = 1_000


class DueScan(msgspec.Struct, frozen=True):
    """`until` is the end of the claim; another due time means that a new scan was requested."""

    repo_id: str
    organization_id: str
    until: int


class ScanClaim:
    def __init__(self, db: Database, scan: DueScan) -> None:
        self._db = db
        self._repo_id = scan.repo_id
        self._lease = Lease(db, DUE, scan.repo_id, scan.until)

    async def renew(self) -> bool:
        """True even if a new scan was requested, because this one is still useful."""
        await self._lease.renew()
        return True

    async def finish(self) -> None:
        await self._lease.release(None)

    async def fail(self, reason: str) -> None:
        await self._db.transact(_fail, self._repo_id, reason)


@in_transaction
async def claim_due_scan(tx: Transaction, left_out: Collection[str] = ()) -> DueScan | None:
    """Claim the repository that has been due longest; it is due again when the lease expires.

    Those of the organizations `left_out` are not claimed.
    """
    now = await tx.clock_ms()
    await end_snoozes(tx, now)
    row = await tx.fetch_one(
        "SELECT id, organization_id FROM repos WHERE scan_due_at IS NOT NULL"
        " AND scan_due_at <= :now AND disconnected_at IS NULL AND indexed_commit IS NOT NULL"
        " AND organization_id NOT IN (SELECT value FROM each(:left_out))"
        " ORDER BY scan_due_at LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
        left_out=list(left_out),
    )
    if row is None:
        return None
    return DueScan(row["id"], row["organization_id"], await DUE.claim(tx, row["id"]))


@in_transaction
async def make_all_due(tx: Transaction) -> None:
    """Called when a service starts, because an earlier one may have stopped during a scan."""
    # A scan that another process has claimed keeps its lease.
    await tx.execute(
        "UPDATE repos SET scan_due_at = :now WHERE disconnected_at IS NULL"
        " AND indexed_commit IS NOT NULL AND scan_due_at IS NULL",
        now=await tx.clock_ms(),
    )
    tx.announce("scan")


async def request_scans(tx: Transaction, ecosystems: Collection[str], delay_ms: int = 0) -> None:
    """Make repositories due that depend on the ecosystems; a delay applies only if not yet due."""
    if not ecosystems:
        return
    not_due = " AND scan_due_at IS NULL" if delay_ms else ""
    await tx.execute(
        "UPDATE repos SET scan_due_at = :due_at WHERE disconnected_at IS NULL"
        f" AND indexed_commit IS NOT NULL{not_due} AND EXISTS (SELECT 1 FROM dependencies d"
        " WHERE d.repo_id = repos.id AND d.ecosystem IN (SELECT value FROM each(:ecosystems)))",
        due_at=await tx.clock_ms() + delay_ms,
        ecosystems=sorted(ecosystems),
    )
    tx.announce("scan")


@in_transaction
async def schedule_rescan(tx: Transaction, repo_id: str) -> None:
    """Scan again later, because an action on the findings could not be completed."""
    await tx.execute(
        "UPDATE repos SET scan_due_at = :due_at WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        due_at=await tx.clock_ms() + _RESCAN_MS,
    )


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
    """With related records of the same vulnerabilities, without duplicates."""
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
    await tx.execute(
        "UPDATE repos SET scanned_at = :now, scan_error = NULL WHERE id = :id",
        id=scan.repo_id,
        now=await tx.clock_ms(),
    )
    tx.announce("findings")


async def _fail(tx: Transaction, repo_id: str, reason: str) -> None:
    await tx.execute(
        "UPDATE repos SET scan_error = :reason, scan_due_at = :due_at WHERE id = :id",
        id=repo_id,
        reason=reason.replace("\0", " ")[:2_000],
        due_at=await tx.clock_ms() + _BACKOFF_MS,
    )
