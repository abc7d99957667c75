"""Turns the webhooks of connected repositories on and off."""

from collections.abc import Sequence

from agentjobs.connections.connections import find_connection
from agentjobs.connections.repositories import decide_hooks
from agentjobs.organizations import audit
from agentjobs.problems import Problem
from agentjobs.repos import hook_rows
from agentjobs.repos.hook_rows import HookRow
from agentjobs.store.database import Database, Transaction


async def register_hooks(
    db: Database, organization: str, connection_name: str, names: Sequence[str], public_url: str
) -> list[HookRow]:
    """For the named repositories, or without names for all that are connected. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    decide_hooks(connection, public_url, with_hooks=True)
    repo_ids = await _repo_ids(db, connection.id, names)
    entry = audit.entry("forge.webhooks_registered", connection.name, repositories=len(repo_ids))
    await db.transact(_register, connection.organization_id, repo_ids, entry)
    return await hook_rows.hooks_of_connection(db, connection.id)


async def remove_hooks(
    db: Database, organization: str, connection_name: str, names: Sequence[str]
) -> list[HookRow]:
    """A running service removes them from the platform. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    repo_ids = await _repo_ids(db, connection.id, names)
    entry = audit.entry("forge.webhooks_removed", connection.name, repositories=len(repo_ids))
    await db.transact(_remove, connection.organization_id, repo_ids, entry)
    return await hook_rows.hooks_of_connection(db, connection.id)


async def _repo_ids(db: Database, connection_id: str, names: Sequence[str]) -> list[str]:
    rows = await db.fetch_all(
        "SELECT id, full_name FROM repos WHERE connection_id = :connection_id"
        " AND disconnected_at IS NULL",
        connection_id=connection_id,
    )
    by_name = {row["full_name"]: row["id"] for row in rows}
    if unknown := [name for name in names if name not in by_name]:
        raise Problem("repo_not_found", f"{unknown[0]} is not connected through this connection.")
    return [by_name[name] for name in (names or by_name)]


async def _register(
    tx: Transaction, organization_id: str, repo_ids: Sequence[str], entry: audit.Entry
) -> None:
    await hook_rows.request_hooks(tx, repo_ids)
    await audit.write(tx, organization_id, entry)


async def _remove(
    tx: Transaction, organization_id: str, repo_ids: Sequence[str], entry: audit.Entry
) -> None:
    await hook_rows.request_removal(tx, repo_ids)
    await audit.write(tx, organization_id, entry)
