"""Turns the webhooks of connected repositories on and off."""

from collections.abc import Sequence

from agentjobs.connections.connections import find_connection
from agentjobs.connections.repositories import decide_hooks
from agentjobs.organizations import audit
from agentjobs.platforms.connection import Connection
from agentjobs.repos import hook_rows
from agentjobs.repos.hook_rows import HookRow
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem


async def register_hooks(
    db: Database, organization: str, connection_name: str, names: Sequence[str], public_url: str
) -> list[HookRow]:
    """Lists the named repositories, or without names all connected ones. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    decide_hooks(connection, public_url, with_hooks=True)
    return await _change(db, connection, names, registers=True)


async def remove_hooks(
    db: Database, organization: str, connection_name: str, names: Sequence[str]
) -> list[HookRow]:
    """A running service removes them from the platform. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    return await _change(db, connection, names, registers=False)


async def _change(
    db: Database, connection: Connection, names: Sequence[str], *, registers: bool
) -> list[HookRow]:
    repo_ids = await _repo_ids(db, connection.id, names)
    change = hook_rows.request_hooks if registers else hook_rows.request_removal
    entry = audit.entry(
        "forge.webhooks_registered" if registers else "forge.webhooks_removed",
        connection.name,
        repositories=len(repo_ids),
    )

    async def change_and_record(tx: Transaction) -> None:
        await change(tx, repo_ids)
        await audit.write(tx, connection.organization_id, entry)

    await db.transact(change_and_record)
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
