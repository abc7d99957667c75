"""The processes of a deployment: their heartbeats, versions and configurations.

`jobs` writes the heartbeats of workers; both are compared here.
"""

import hashlib
import socket
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Literal

import msgspec

from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.digest import configuration_digest, differing_settings, short_digest

HEARTBEAT_SECONDS = 10.0
# Processes without a heartbeat for this long are not counted as running.
SILENT_MS = 35 * SECOND_MS
_KEPT_MS = 3_600 * SECOND_MS
_MAX_NAMES = 5
_LEASES_WITHOUT_HEARTBEAT = 1.5

Role = Literal["serve", "up"]


class ProcessInfo(msgspec.Struct):
    """A process with an API. `repositories_problem`: why it serves no files of repositories."""

    id: str
    role: Role
    hostname: str
    version: str
    configuration_digest: str
    repositories_problem: str | None = None
    started_at: int = 0
    heartbeat_at: int = 0
    # Space on the disk that holds the repositories.
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None


class Configuration(msgspec.Struct, frozen=True):
    """The configuration of one running process or worker."""

    process: str
    version: str
    digest: str
    started_at: int
    id: str = ""


@cache
def program_version() -> str:
    return version("agentjobs")


def worker_silent_ms(settings: Settings) -> int:
    """A worker without a heartbeat for this long is not counted."""
    return int(settings.lease_seconds * _LEASES_WITHOUT_HEARTBEAT * SECOND_MS)


def this_process(role: Role, settings: Settings) -> ProcessInfo:
    return ProcessInfo(
        new_id("prc"),
        role,
        socket.gethostname(),
        program_version(),
        configuration_digest(settings),
    )


async def is_first_process(db: Database, process_id: str) -> bool:
    """Whether no older process of its version and configuration has been alive since its start."""
    row = await db.fetch_one(
        "SELECT o.id FROM processes o JOIN processes p ON p.version = o.version"
        " AND p.configuration_digest = o.configuration_digest"
        " WHERE p.id = :id AND o.heartbeat_at >= p.started_at"
        " AND (o.started_at, o.id) < (p.started_at, p.id) LIMIT 1",
        id=process_id,
    )
    return row is None


class FleetSize(msgspec.Struct, frozen=True):
    """`processes` are the workers, and the processes that only have an API."""

    processes: int
    # Processes that take jobs, and how many of them come before the given one.
    workers: int = 0
    workers_before: int = 0


async def fleet_size(db: Database, worker_id: str = "") -> FleetSize:
    """The processes that are running."""
    row = await db.fetch_one(
        "SELECT w.*, p.* FROM (SELECT COUNT(*) AS running,"
        "  COUNT(CASE WHEN drain_requested_at IS NULL THEN 1 END) AS workers,"
        "  COUNT(CASE WHEN drain_requested_at IS NULL AND id < :worker_id THEN 1 END) AS before"
        f"  FROM workers WHERE heartbeat_at > {DATABASE_NOW} - CAST(:silent_ms AS BIGINT)) w,"
        " (SELECT COUNT(CASE WHEN role <> 'up' THEN 1 END) AS apis"
        f"  FROM processes WHERE heartbeat_at > {DATABASE_NOW} - CAST(:silent_ms AS BIGINT)) p",
        silent_ms=SILENT_MS,
        now=now_ms(),
        worker_id=worker_id,
    )
    assert row is not None
    processes = row["running"] + row["apis"]
    return FleetSize(processes, row["workers"], row["before"])


@in_transaction
async def sign_off(tx: Transaction, process_id: str) -> None:
    await tx.execute("DELETE FROM processes WHERE id = :id", id=process_id)


@in_transaction
async def delete_silent_processes(tx: Transaction) -> None:
    before = await tx.clock_ms() - _KEPT_MS
    await tx.execute("DELETE FROM processes WHERE heartbeat_at < :before", before=before)


async def list_processes(db: Database) -> list[ProcessInfo]:
    """Processes that were alive within the last hour, including dead ones."""
    rows = await db.fetch_all("SELECT * FROM processes ORDER BY hostname, id")
    return [to_struct(row, ProcessInfo) for row in rows]


async def running_instances(db: Database) -> set[str]:
    """What `/healthz` says of each running process with an API."""
    rows = await db.fetch_all(
        "SELECT id FROM processes"
        f" WHERE heartbeat_at > {DATABASE_NOW} - CAST(:silent_ms AS BIGINT)",
        silent_ms=SILENT_MS,
        now=now_ms(),
    )
    return {hash_process_id(row["id"]) for row in rows}


def hash_process_id(process_id: str) -> str:
    """Identifies a process to whom may read the database, and says nothing to others."""
    return hashlib.sha256(process_id.encode()).hexdigest()[:16]


async def can_index(db: Database) -> bool:
    """Whether a process is running that has an API and reaches the files of repositories."""
    row = await db.fetch_one(
        "SELECT id FROM processes WHERE repositories_problem IS NULL"
        f" AND heartbeat_at > {DATABASE_NOW} - CAST(:silent_ms AS BIGINT) LIMIT 1",
        silent_ms=SILENT_MS,
        now=now_ms(),
    )
    return row is not None


async def running_configurations(db: Database) -> list[Configuration]:
    """The configurations of all processes and workers that are running; the oldest first."""
    rows = await db.fetch_all(
        "SELECT 'worker' AS role, id, hostname, version, configuration_digest, started_at"
        f" FROM workers WHERE heartbeat_at > {DATABASE_NOW} - :silent_ms"
        " AND configuration_digest <> ''"
        " UNION ALL SELECT role, id, hostname, version, configuration_digest, started_at"
        f" FROM processes WHERE heartbeat_at > {DATABASE_NOW} - :silent_ms"
        " ORDER BY started_at, id",
        now=now_ms(),
        silent_ms=SILENT_MS,
    )
    return [
        Configuration(
            f"{row['role']} on {row['hostname']} ({row['id']})",
            row["version"],
            row["configuration_digest"],
            row["started_at"],
            row["id"],
        )
        for row in rows
    ]


def odd_configurations(running: Sequence[Configuration]) -> list[Configuration]:
    """Processes that `configuration_problems` reports."""
    return [odd for odd, _ in (*_odd_versions(running), *_odd_digests(running))]


def configuration_problems(running: Sequence[Configuration]) -> list[str]:
    """A sentence for each process whose version or configuration differs from most of them.

    If no configuration is the most common one, the oldest process counts as right.
    """
    return [
        *(
            f"{odd.process} runs version {odd.version}, most others {usual.version}: install"
            " the same version everywhere."
            for odd, usual in _odd_versions(running)
        ),
        *(
            f"{odd.process} has another configuration than {usual.process}:"
            f" {_describe_difference(odd.digest, usual.digest)}. Make their agentjobs.toml and"
            " AGENTJOBS_* variables equal, and restart it."
            for odd, usual in _odd_digests(running)
        ),
    ]


def _describe_difference(digest: str, usual: str) -> str:
    names = differing_settings(digest, usual)
    if not names:
        return f"its digest is {short_digest(digest)}, not {short_digest(usual)}"
    shown = names[:_MAX_NAMES] + (["…"] if len(names) > _MAX_NAMES else [])
    return f"it has other values of {', '.join(shown)}"


def _odd_versions(running: Sequence[Configuration]) -> list[tuple[Configuration, Configuration]]:
    return _odd(running, "version")


def _odd_digests(running: Sequence[Configuration]) -> list[tuple[Configuration, Configuration]]:
    """Another version has other settings, and therefore always another digest."""
    others = [odd for odd, _ in _odd_versions(running)]
    return _odd([value for value in running if value not in others], "digest")


def _odd(
    running: Sequence[Configuration], name: Literal["version", "digest"]
) -> list[tuple[Configuration, Configuration]]:
    """Each process that differs, with one that has the usual value."""
    counts = Counter(getattr(value, name) for value in running)
    if len(counts) <= 1:
        return []
    # With equal counts, the value that was seen first is the usual one.
    usual_value = max(counts, key=lambda value: counts[value])
    usual = next(value for value in running if getattr(value, name) == usual_value)
    return [(value, usual) for value in running if getattr(value, name) != usual_value]


@in_transaction
async def record_heartbeat(tx: Transaction, process: ProcessInfo) -> None:
    # All columns each time, since a process that missed heartbeats may have been deleted.
    await tx.execute(
        "INSERT INTO processes (id, role, hostname, version, configuration_digest,"
        " repositories_problem, started_at, heartbeat_at, disk_free_bytes, disk_total_bytes)"
        " VALUES (:id, :role, :hostname, :version, :configuration_digest, :repositories_problem,"
        " :now, :now, :disk_free_bytes, :disk_total_bytes)"
        " ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at,"
        " repositories_problem = excluded.repositories_problem,"
        " disk_free_bytes = excluded.disk_free_bytes,"
        " disk_total_bytes = excluded.disk_total_bytes",
        id=process.id,
        role=process.role,
        hostname=process.hostname,
        version=process.version,
        configuration_digest=process.configuration_digest,
        repositories_problem=process.repositories_problem,
        disk_free_bytes=process.disk_free_bytes,
        disk_total_bytes=process.disk_total_bytes,
        now=await tx.clock_ms(),
    )
