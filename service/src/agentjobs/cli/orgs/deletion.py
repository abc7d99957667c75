"""Deletes an organization: access first, then files, then every row.

An interrupted deletion continues when it is started again.
"""

import asyncio
import contextlib
import logging
import time

from agentjobs.cli.orgs.tables import tenant_tables
from agentjobs.cli.platforms.access import open_platforms
from agentjobs.cli.repos.purge import remove_repository_files
from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import (
    DEFAULT_ORGANIZATION,
    Organization,
    find_organization,
    write_service_entry,
)
from agentjobs.organizations.pauses import pause, resume
from agentjobs.organizations.removal import close_organization
from agentjobs.platform_sync.hook_removal import remove_hooks_of_connection
from agentjobs.repos.connect import disconnect_all
from agentjobs.repos.hook_rows import request_removal
from agentjobs.store.database import Database, IntegrityError, Transaction
from agentjobs.webhooks.removal import close_endpoints, has_active_deliveries
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)
_STOP_SECONDS = 60.0
_HOOKS_SECONDS = 30.0
_POLL_SECONDS = 0.2
_MAX_ROUNDS = 5


async def delete_organization(
    db: Database, settings: Settings, name: str, *, force: bool = False
) -> dict[str, int]:
    """Returns the number of deleted rows by table. `force` cancels jobs that run."""
    organization = await find_organization(db, name)
    if name == DEFAULT_ORGANIZATION:
        raise Problem("default_organization", f"The organization {name!r} cannot be deleted.")
    await _require_repositories(db, settings, organization)
    await _stop_jobs(db, organization, force=force)
    # Before anything is deleted, so that a record remains whatever interrupts the deletion.
    about = {"organization_id": organization.id}
    await _record(db, audit.entry("organization.deletion_started", name, **about))
    await close_organization(db, organization.id)
    await remove_platform_hooks(db, settings, organization)
    await _stop_deliveries(db, organization)
    for _ in range(_MAX_ROUNDS):
        await _remove_files(db, settings, organization)
        try:
            deleted = await tenant_tables().delete(db, organization.id)
        except IntegrityError:
            # A request that began before the organization was closed has added a row.
            continue
        rows = sum(deleted.values())
        await _record(db, audit.entry("organization.deleted", name, rows=rows, **about))
        return deleted
    raise Problem("organization_in_use", f"{name!r} is still being changed; try again.")


async def _record(db: Database, entry: audit.Entry) -> None:
    """Records it in the log of the service, because the organization's own is deleted."""
    await db.transact(write_service_entry, entry)
    _log.info(entry.action, extra={"fields": {"organization": entry.target, **entry.details}})


async def _require_repositories(
    db: Database, settings: Settings, organization: Organization
) -> None:
    """Copies of repositories on platforms are in this directory, too."""
    row = await db.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :id LIMIT 1", id=organization.id
    )
    if row is not None:
        await RepositoriesDirectory(db, settings).check_for_operator()


async def _stop_jobs(db: Database, organization: Organization, *, force: bool) -> None:
    was_running = await pause(db, organization.name)
    running = await db.transact(_running_jobs, organization.id)
    if running and not force:
        if was_running:
            await resume(db, organization.name)
        raise Problem(
            "jobs_running",
            f"{len(running)} jobs of {organization.name} are running; wait until they finish, or"
            " cancel them with --force.",
        )
    give_up_at = time.monotonic() + _STOP_SECONDS
    while running:
        for job_id in running:
            # It may have finished meanwhile.
            with contextlib.suppress(Problem):
                await cancel_job(db, organization.id, job_id)
        if time.monotonic() > give_up_at:
            raise Problem(
                "jobs_running", f"{len(running)} jobs did not stop within {_STOP_SECONDS:g} s."
            )
        await asyncio.sleep(_POLL_SECONDS)
        running = await db.transact(_running_jobs, organization.id)


async def remove_platform_hooks(
    db: Database, settings: Settings, organization: Organization
) -> None:
    """A platform that is away does not keep the organization from being deleted."""
    rows = await db.fetch_all(
        "SELECT id, connection_id FROM repos WHERE organization_id = :id"
        " AND id IN (SELECT repo_id FROM repo_hooks)",
        id=organization.id,
    )
    if not rows:
        return
    await db.transact(request_removal, [row["id"] for row in rows])
    left: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_HOOKS_SECONDS), open_platforms(db, settings) as platforms:
            for connection_id in {row["connection_id"] for row in rows}:
                left += await remove_hooks_of_connection(db, platforms, connection_id)
    if left:
        _log.warning("webhooks stay on their platform: %s", ", ".join(left[:20]))


async def _stop_deliveries(db: Database, organization: Organization) -> None:
    """A sender would record an attempt that ends after its delivery was deleted."""
    await db.transact(close_endpoints, organization.id)
    give_up_at = time.monotonic() + _STOP_SECONDS
    while await db.transact(has_active_deliveries, organization.id):
        if time.monotonic() > give_up_at:
            raise Problem("deliveries_active", "Webhooks are still being sent; try again.")
        await asyncio.sleep(_POLL_SECONDS)


async def _running_jobs(tx: Transaction, organization_id: str) -> list[str]:
    """Jobs of a worker that is gone do not count: its lease has expired."""
    rows = await tx.fetch_all(
        "SELECT job_id AS id FROM job_queue WHERE organization_id = :id"
        " AND lease_owner IS NOT NULL"
        " AND lease_expires_at > :now",
        id=organization_id,
        now=await tx.clock_ms(),
    )
    return [row["id"] for row in rows]


async def _remove_files(db: Database, settings: Settings, organization: Organization) -> None:
    """Removes files on this host; other workers drop their copies of disconnected repositories."""
    await db.transact(disconnect_all, organization.id)
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE organization_id = :id", id=organization.id
    )
    for row in rows:
        await remove_repository_files(db, settings, organization, row["id"])
