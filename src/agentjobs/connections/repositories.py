"""Connecting repositories that a platform keeps: rows that wait for their first fetch.

Knows neither git nor any platform's API. What is new on a platform is `platform_sync`'s business.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from agentjobs.clock import now_ms
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import find_connection
from agentjobs.connections.verify import as_problem
from agentjobs.forges.connection import Connection
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError, Platform, RemoteRepository, RepoAddress
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.repos.names import validate_platform_name
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database, IntegrityError, Transaction

MOST_AT_ONCE = 4


class Connected(msgspec.Struct, frozen=True):
    """`repo` if it is connected now, else `problem` says why not."""

    full_name: str
    repo: RepoView | None = None
    problem: Problem | None = None


class AvailableRepository(msgspec.Struct, frozen=True):
    """`connected_as` is its name here, if it is connected; `problem` why it cannot be."""

    seen: RemoteRepository
    connected_as: str | None = None
    problem: str | None = None


async def list_available(
    db: Database,
    platforms: Platforms,
    organization: str,
    connection_name: str,
    retry_budget: RetryBudget | None = None,
) -> list[AvailableRepository]:
    """All that the connection sees, by their names. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    rows = await db.fetch_all(
        "SELECT external_id, full_name FROM repos WHERE connection_id = :connection_id"
        " AND disconnected_at IS NULL",
        connection_id=connection.id,
    )
    connected = {row["external_id"]: row["full_name"] for row in rows}
    try:
        platform = await platforms.adapter_for(connection.id, retry_budget)
        seen = [one async for one in platform.repositories()]
    except ForgeError as error:
        raise as_problem(error) from None
    return [
        AvailableRepository(one, connected.get(one.external_id), why_not_connectable(one))
        for one in sorted(seen, key=lambda one: one.full_name.lower())
    ]


async def connect_repositories(
    db: Database,
    platforms: Platforms,
    organization: str,
    connection_name: str,
    names: Sequence[str] | None = None,
    retry_budget: RetryBudget | None = None,
) -> list[Connected]:
    """Those that are named; None: all that the connection sees. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    try:
        platform = await platforms.adapter_for(connection.id, retry_budget)
        if names is None:
            seen = [one async for one in platform.repositories()]
            return [await _connected(db, connection, organization, one) for one in seen]
    except ForgeError as error:
        raise as_problem(error) from None
    places = asyncio.Semaphore(MOST_AT_ONCE)

    async def connected(name: str) -> Connected:
        async with places:
            return await _connected_by_name(db, platform, connection, organization, name)

    # Named twice, it is meant once.
    return list(await asyncio.gather(*map(connected, dict.fromkeys(names))))


def why_not_connectable(seen: RemoteRepository) -> str | None:
    """None: it can be connected, as far as its platform tells."""
    if seen.is_archived:
        return "It is archived, so nothing can be pushed to it; unarchive it on its platform first."
    if not seen.default_branch:
        return "It is empty; push a first commit to it."
    if not seen.may_push:
        return "The connection may read it, but not push to it; give its account that right."
    return None


async def _connected_by_name(
    db: Database, platform: Platform, connection: Connection, organization: str, name: str
) -> Connected:
    try:
        address = RepoAddress(organization, validate_platform_name(name), repo_id="")
        seen = await platform.repository(address)
    except ForgeError as error:
        return Connected(name, problem=as_problem(error))
    except Problem as problem:
        return Connected(name, problem=problem)
    return await _connected(db, connection, organization, seen)


async def _connected(
    db: Database, connection: Connection, organization: str, seen: RemoteRepository
) -> Connected:
    try:
        return Connected(seen.full_name, await _connect(db, connection, organization, seen))
    except Problem as problem:
        return Connected(seen.full_name, problem=problem)


async def _connect(
    db: Database, connection: Connection, organization: str, seen: RemoteRepository
) -> RepoView:
    full_name = validate_platform_name(seen.full_name)
    if reason := why_not_connectable(seen):
        raise Problem("repo_not_connectable", reason)
    owner = await find_organization(db, organization)
    entry = audit.entry("repo.connected", full_name, connection=connection.name)
    try:
        await db.transact(_insert, connection, seen, entry)
    except IntegrityError:
        # Somebody else was faster.
        raise _name_taken(full_name) from None
    return await find_repo(db, owner.id, full_name)


async def _insert(
    tx: Transaction, connection: Connection, seen: RemoteRepository, entry: audit.Entry
) -> None:
    await _hold(tx, connection)
    await _refuse_connected(tx, connection, seen)
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, index_status, created_at, next_pull_number, connection_id, external_id,"
        " sync_due_at) VALUES (:id, :organization_id, :full_name, :platform, :source,"
        # No commit, and no index is due, before the first fetch.
        " :default_branch, '', 'indexing', :now, 1, :connection_id, :external_id, :now)",
        id=new_id("repo"),
        organization_id=connection.organization_id,
        full_name=seen.full_name,
        platform=connection.platform,
        source=f"{connection.url}/{seen.full_name}",
        default_branch=seen.default_branch,
        now=now_ms(),
        connection_id=connection.id,
        external_id=seen.external_id,
    )
    await audit.write(tx, connection.organization_id, entry)
    await tx.invalidate("repos")
    tx.announce("forges")


async def _hold(tx: Transaction, connection: Connection) -> None:
    """Until the end, so that it is not removed meanwhile."""
    row = await tx.fetch_one(
        "SELECT id FROM forge_connections WHERE id = :id AND removed_at IS NULL"
        " /*postgresql FOR SHARE */",
        id=connection.id,
    )
    if row is None:
        raise Problem("forge_not_found", f"The connection {connection.name} was removed meanwhile.")


async def _refuse_connected(
    tx: Transaction, connection: Connection, seen: RemoteRepository
) -> None:
    row = await tx.fetch_one(
        "SELECT full_name FROM repos WHERE connection_id = :connection_id"
        " AND external_id = :external_id AND disconnected_at IS NULL",
        connection_id=connection.id,
        external_id=seen.external_id,
    )
    if row is not None:
        raise Problem("repo_connected", f"It is connected already, as {row['full_name']}.")
    row = await tx.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :organization_id"
        " AND full_name = :full_name AND disconnected_at IS NULL",
        organization_id=connection.organization_id,
        full_name=seen.full_name,
    )
    if row is not None:
        raise _name_taken(seen.full_name)


def _name_taken(full_name: str) -> Problem:
    return Problem(
        "name_taken",
        f"Another repository named {full_name!r} is connected already; disconnect that one first.",
    )
