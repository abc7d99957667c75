"""Turns the webhooks of connected repositories on and off."""

from collections.abc import Sequence

from agentjobs.connections.connections import find_connection
from agentjobs.connections.repositories import decide_hooks
from agentjobs.organizations import audit
from agentjobs.platforms.connection import Connection
from agentjobs.repos import hook_rows
from agentjobs.repos.hook_rows import HookRow
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem


@audit.in_transaction
async def register_hooks(
    tx: Transaction, organization: str, connection_name: str, names: Sequence[str], public_url: str
) -> list[HookRow]:
    """Lists the named repositories, or without names all connected ones. Raises Problem."""
    connection = await find_connection(tx, organization, connection_name)
    decide_hooks(connection, public_url, with_hooks=True)
    repo_ids = await _repo_ids(tx, connection.id, names)
    await hook_rows.request_hooks(tx, repo_ids)
    return await _record(tx, connection, "forge.webhooks_registered", len(repo_ids))


@audit.in_transaction
async def remove_hooks(
    tx: Transaction, organization: str, connection_name: str, names: Sequence[str]
) -> list[HookRow]:
    """A running service removes them from the platform. Raises Problem."""
    connection = await find_connection(tx, organization, connection_name)
    repo_ids = await _repo_ids(tx, connection.id, names)
    await hook_rows.request_removal(tx, repo_ids)
    return await _record(tx, connection, "forge.webhooks_removed", len(repo_ids))


async def _record(
    tx: Transaction, connection: Connection, action: str, number: int
) -> list[HookRow]:
    await audit.record(tx, connection.organization_id, action, connection.name, repositories=number)
    return await hook_rows.hooks_of_connection(tx, connection.id)


async def _repo_ids(tx: Transaction, connection_id: str, names: Sequence[str]) -> list[str]:
    rows = await tx.fetch_all(
        "SELECT id, full_name FROM repos WHERE connection_id = :connection_id"
        " AND disconnected_at IS NULL",
        connection_id=connection_id,
    )
    by_name = {row["full_name"]: row["id"] for row in rows}
    if unknown := [name for name in names if name not in by_name]:
        raise Problem("repo_not_found", f"{unknown[0]} is not connected through this connection.")
    return [by_name[name] for name in (names or by_name)]
