"""Rows of `platform_connections`; `health` has their status. Credentials are sealed bytes here."""

from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.sealing import Sealed
from agentjobs.platforms.connection import Connection
from agentjobs.repos.hook_rows import make_due
from agentjobs.repos.queues import retry_failed_syncs
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem


def not_found(name: str) -> Problem:
    return Problem(
        "forge_not_found",
        f"There is no connection {name!r}; list them with `agentjobs platforms list`.",
    )


async def insert(
    tx: Transaction, connection: Connection, sealed: Sealed, hook: Sealed, entry: audit.Entry
) -> None:
    await tx.execute(
        "INSERT INTO platform_connections (id, organization_id, platform, kind, name, url, app_id,"
        " installation_id, account, commit_name, commit_email, checked_at, sealed, key_id,"
        " hook_sealed, hook_key_id, created_at, updated_at) VALUES (:id, :organization_id,"
        " :platform, :kind, :name, :url, :app_id, :installation_id, :account, :commit_name,"
        " :commit_email, :checked_at, :sealed, :key_id, :hook_sealed, :hook_key_id, :created_at,"
        " :created_at)",
        **msgspec.structs.asdict(connection),
        sealed=sealed.data,
        key_id=sealed.key_id,
        hook_sealed=hook.data,
        hook_key_id=hook.key_id,
    )
    await audit.write(tx, connection.organization_id, entry)


async def update(tx: Transaction, connection: Connection, assignments: str, **values: Any) -> None:
    """Raises Problem if the connection was removed."""
    changed = await tx.execute(
        f"UPDATE platform_connections SET {assignments}, updated_at = :now"
        " WHERE id = :id AND removed_at IS NULL",
        id=connection.id,
        now=now_ms(),
        **values,
    )
    if not changed:
        raise not_found(connection.name)


async def count_repositories(db: Database | Transaction, connection_id: str) -> int:
    row = await db.fetch_one(
        "SELECT COUNT(*) AS number FROM repos"
        " WHERE connection_id = :id AND disconnected_at IS NULL",
        id=connection_id,
    )
    assert row is not None
    return int(row["number"])


async def retry_refused(tx: Transaction, connection: Connection) -> None:
    """Sync and register what the former credential could not."""
    await retry_failed_syncs(tx, connection.id)
    await make_due(tx, connection.id)
