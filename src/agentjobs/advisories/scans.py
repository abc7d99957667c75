"""When a repository's dependencies are held against the advisories, and what comes of it.

`scan_due_at` is queue, lease and backoff. Who changes dependencies or advisories sets it to now.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from agentjobs.advisories.exposure import Finding, Package, match_dependencies
from agentjobs.advisories.findings import replace_findings
from agentjobs.advisories.matching import by_package
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.rows import advisories_for
from agentjobs.advisories.version_choice import Choice
from agentjobs.clock import SECOND_MS
from agentjobs.inventory.model import Dependency
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.leases import DueColumn, Lease

_DUE = DueColumn("repos", "id", "scan_due_at", 60 * SECOND_MS)
_BACKOFF_MS = 5 * 60 * SECOND_MS
# For jobs to leave the queue; and a scan may ask registries again.
_LATER_MS = 15 * 60 * SECOND_MS
_NAMES_AT_ONCE = 1_000
_CHOICES_AT_ONCE = 8
_decode_parents = msgspec.json.Decoder(tuple[str, ...]).decode


class VersionChooser(Protocol):
    async def choose(
        self, ecosystem: str, name: str, version: str, advisories: Sequence[Advisory]
    ) -> Choice: ...


class DueScan(msgspec.Struct, frozen=True):
    """`until` is the claim: whoever sets another time wants a further scan."""

    repo_id: str
    organization_id: str
    until: int


class ScanClaim:
    def __init__(self, db: Database, scan: DueScan) -> None:
        self._db = db
        self._repo_id = scan.repo_id
        self._lease = Lease(db, _DUE, scan.repo_id, scan.until)

    async def renew(self) -> bool:
        """True even if another scan was requested meanwhile: this one is still worth finishing."""
        await self._lease.renew()
        return True

    async def finish(self) -> None:
        await self._lease.release(None)

    async def fail(self, reason: str) -> None:
        await self._db.transact(_fail, self._repo_id, reason)


async def claim_due_scan(db: Database) -> DueScan | None:
    """The repository that has waited longest; it is due again if we are never heard of."""
    return await db.transact(_claim)


async def make_all_due(db: Database) -> None:
    """Once, when a service starts: something may have been left undone."""
    await db.transact(_make_all_due)


async def request_scans(tx: Transaction, ecosystems: Collection[str], in_ms: int = 0) -> None:
    """Of the repositories that depend on something there; later is only for those not due yet."""
    if not ecosystems:
        return
    not_due = " AND scan_due_at IS NULL" if in_ms else ""
    await tx.execute(
        "UPDATE repos SET scan_due_at = :due_at WHERE disconnected_at IS NULL"
        f" AND indexed_commit IS NOT NULL{not_due} AND EXISTS (SELECT 1 FROM dependencies d"
        " WHERE d.repo_id = repos.id AND d.ecosystem IN (SELECT value FROM each(:ecosystems)))",
        due_at=await tx.clock_ms() + in_ms,
        ecosystems=sorted(ecosystems),
    )
    tx.announce("scan")


async def schedule_rescan(db: Database, repo_id: str) -> None:
    """Though nothing changed: something could not be done about what was found."""
    await db.transact(_scan_later, repo_id)


async def scan_repository(db: Database, scan: DueScan, chooser: VersionChooser) -> int:
    """How many findings there are. Only `finish` of the claim says that it is done."""
    dependencies = await dependencies_of(db, scan.repo_id)
    advisories = await load_advisories(db, dependencies)
    findings = await asyncio.to_thread(match_dependencies, dependencies, advisories)
    choices = await choose_versions(chooser, findings, advisories)
    await db.transact(_store, scan, findings, choices)
    return len(findings)


async def dependencies_of(db: Database, repo_id: str) -> list[Dependency]:
    rows = await db.fetch_all(
        "SELECT * FROM dependencies WHERE repo_id = :repo_id ORDER BY position", repo_id=repo_id
    )
    return [_dependency(row) for row in rows]


async def load_advisories(db: Database, dependencies: Sequence[Dependency]) -> list[Advisory]:
    """With those about the same faults, each once."""
    names: dict[str, set[str]] = defaultdict(set)
    for one in dependencies:
        if one.version is not None:
            names[one.ecosystem].add(one.name)
    found: dict[str, Advisory] = {}
    for ecosystem, wanted in names.items():
        ordered = sorted(wanted)
        for start in range(0, len(ordered), _NAMES_AT_ONCE):
            some = await advisories_for(db, ecosystem, ordered[start : start + _NAMES_AT_ONCE])
            found.update({one.id: one for one in some})
    return list(found.values())


async def choose_versions(
    chooser: VersionChooser, findings: Sequence[Finding], advisories: Sequence[Advisory]
) -> dict[Package, Choice]:
    about = by_package(advisories, {finding.package[:2] for finding in findings})
    turns = asyncio.Semaphore(_CHOICES_AT_ONCE)

    async def choose(package: Package) -> Choice:
        ecosystem, name, version = package
        async with turns:
            return await chooser.choose(ecosystem, name, version, about[ecosystem, name])

    packages = list(dict.fromkeys(finding.package for finding in findings))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(choose(package)) for package in packages]
    return {package: task.result() for package, task in zip(packages, tasks, strict=True)}


async def _claim(tx: Transaction) -> DueScan | None:
    now = await tx.clock_ms()
    row = await tx.fetch_one(
        "SELECT id, organization_id FROM repos WHERE scan_due_at IS NOT NULL"
        " AND scan_due_at <= :now AND disconnected_at IS NULL AND indexed_commit IS NOT NULL"
        " ORDER BY scan_due_at LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
    )
    if row is None:
        return None
    return DueScan(row["id"], row["organization_id"], await _DUE.claim(tx, row["id"]))


async def _make_all_due(tx: Transaction) -> None:
    # One that another process is at keeps its time.
    await tx.execute(
        "UPDATE repos SET scan_due_at = :now WHERE disconnected_at IS NULL"
        " AND indexed_commit IS NOT NULL AND scan_due_at IS NULL",
        now=await tx.clock_ms(),
    )
    tx.announce("scan")


async def _store(
    tx: Transaction,
    scan: DueScan,
    findings: Sequence[Finding],
    choices: Mapping[Package, Choice],
) -> None:
    # Two at once would insert the same rows: the second waits here, and then finds them.
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


async def _scan_later(tx: Transaction, repo_id: str) -> None:
    await tx.execute(
        "UPDATE repos SET scan_due_at = :due_at WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        due_at=await tx.clock_ms() + _LATER_MS,
    )


async def _fail(tx: Transaction, repo_id: str, reason: str) -> None:
    await tx.execute(
        "UPDATE repos SET scan_error = :reason, scan_due_at = :due_at WHERE id = :id",
        id=repo_id,
        reason=reason.replace("\0", " ")[:2_000],
        due_at=await tx.clock_ms() + _BACKOFF_MS,
    )


def _dependency(row: Row) -> Dependency:
    return Dependency(
        ecosystem=row["ecosystem"],
        name=row["name"],
        version=row["version"],
        requirement=row["requirement"],
        direct=bool(row["direct"]),
        scope=row["scope"],
        manifest=row["manifest"],
        parents=_decode_parents(row["parents"]),
    )
