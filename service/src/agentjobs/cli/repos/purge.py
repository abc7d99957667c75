"""Removes what is on disk of a repository: here at once, on other machines by their processes.

Jobs, logs and pull requests are in the store and keep their retention. An interrupted purge
continues when it is started again.
"""

import asyncio
import contextlib
import time
from pathlib import Path

import msgspec

from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.local_git import repositories
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization, find_organization
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.worker_part.machine import SNAPSHOTS, remove_repo_snapshots
from agentjobs_runtime.mirrors.mirror import remove_repo_files
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.messages import DISCONNECTED_TOPIC
from agentjobs_runtime.settings import Settings

_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.2


class Purged(msgspec.Struct, frozen=True):
    """`removed` are the paths on this host. `workers` are the hosts of workers, which follow."""

    full_name: str
    removed: list[str]
    workers: list[str]


async def purge_repository(
    db: Database, settings: Settings, organization: str, full_name: str
) -> Purged:
    """Disconnects it first. Earlier repositories of this name are purged as well."""
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT id, disconnected_at FROM repos WHERE organization_id = :id"
        " AND full_name = :full_name ORDER BY id",
        id=owner.id,
        full_name=full_name,
    )
    if not rows:
        raise Problem(
            "repo_not_connected",
            f"The repository {full_name!r} is not connected and never was; "
            "`agentjobs repos list` shows the connected ones.",
        )
    await RepositoriesDirectory(db, settings).check_for_operator()
    if any(row["disconnected_at"] is None for row in rows):
        await disconnect_repository(db, organization, full_name)
    paths: list[Path] = []
    for row in rows:
        paths += await remove_repository_files(db, settings, owner, row["id"])
    workers = await db.fetch_all("SELECT DISTINCT hostname FROM workers ORDER BY hostname")
    await db.transact(_record, owner.id, audit.entry("repo.purged", full_name))
    return Purged(full_name, list(map(str, paths)), [row["hostname"] for row in workers])


async def remove_repository_files(
    db: Database, settings: Settings, owner: Organization, repo_id: str
) -> list[Path]:
    """Removes a disconnected repository's files on this host, once unused. Returns their paths."""
    await _stop_work(db, owner, repo_id)
    async with changing_repository(db, repo_id):
        paths = await asyncio.to_thread(_remove_files, settings, repo_id)
    if left := [str(path) for path in paths if path.exists()]:
        raise Problem(
            "files_left",
            f"The repository is disconnected, but these could not be removed: {', '.join(left)}."
            " Run the command as the user of the service.",
        )
    return paths


def _remove_files(settings: Settings, repo_id: str) -> list[Path]:
    """Blocking. Returns the paths on this host that existed; some may be left."""
    mirrors, workspaces = settings.data_path / "mirrors", settings.data_path / "workspaces"
    snapshots = settings.data_path / SNAPSHOTS
    paths = [
        repositories.path(settings.repositories_path, repo_id),
        mirrors / f"{repo_id}.git",
        workspaces / "templates" / repo_id,
        snapshots / repo_id,
    ]
    existing = [path for path in paths if path.exists()]
    repositories.remove_repository(settings.repositories_path, repo_id)
    remove_repo_files(mirrors, workspaces, repo_id)
    remove_repo_snapshots(snapshots, repo_id)
    return existing


async def _stop_work(db: Database, owner: Organization, repo_id: str) -> None:
    give_up_at = time.monotonic() + _STOP_SECONDS
    while (work := await db.transact(_active_work, repo_id)).is_active:
        for job_id in work.jobs:
            # It may have finished meanwhile.
            with contextlib.suppress(Problem):
                await cancel_job(db, owner.id, job_id)
        if time.monotonic() > give_up_at:
            raise Problem(
                "repo_in_use",
                f"The repository is disconnected, but still in use after {_STOP_SECONDS:g} s"
                " (jobs, a sync or an index). Run the command again.",
            )
        await asyncio.sleep(_POLL_SECONDS)


class _Work(msgspec.Struct, frozen=True):
    jobs: list[str]
    is_read: bool

    @property
    def is_active(self) -> bool:
        return bool(self.jobs) or self.is_read


async def _active_work(tx: Transaction, repo_id: str) -> _Work:
    """That of processes that are gone does not count: their leases have expired."""
    now = await tx.clock_ms()
    jobs: list[Row] = await tx.fetch_all(
        "SELECT job_id AS id FROM job_queue WHERE repo_id = :id AND lease_owner IS NOT NULL"
        " AND lease_expires_at > :now",
        id=repo_id,
        now=now,
    )
    reader = await tx.fetch_one(
        "SELECT repo_id FROM sync_queue WHERE repo_id = :id AND lease_until > :now"
        " UNION ALL SELECT repo_id FROM index_queue WHERE repo_id = :id AND lease_until > :now",
        id=repo_id,
        now=now,
    )
    return _Work([row["id"] for row in jobs], reader is not None)


async def _record(tx: Transaction, organization_id: str, entry: audit.Entry) -> None:
    await audit.write(tx, organization_id, entry)
    tx.announce(DISCONNECTED_TOPIC)
