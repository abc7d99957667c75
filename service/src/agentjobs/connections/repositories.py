"""Connecting repositories that a platform hosts: rows that are due for their first sync.

Knows neither git nor any platform's API. `platform_sync` fetches and follows the repositories.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import find_connection
from agentjobs.connections.hook_urls import reason_unreachable
from agentjobs.connections.verify import problem_from
from agentjobs.organizations import audit
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import Platform, PlatformError, RemoteRepository, RepoAddress
from agentjobs.repos.hook_rows import request_hooks
from agentjobs.repos.names import name_taken, validate_platform_name
from agentjobs.repos.platform_rows import NewPlatformRepo, insert_platform_repo
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database, IntegrityError, Transaction
from agentjobs_runtime.problems import Problem

_MAX_CONCURRENT_LOOKUPS = 4


class ConnectResult(msgspec.Struct, frozen=True):
    """`repo` if it was connected, otherwise `problem` says why not."""

    full_name: str
    repo: RepoView | None = None
    problem: Problem | None = None


class AvailableRepository(msgspec.Struct, frozen=True):
    """`connected_as` is its name here if it is connected; `problem` is why it cannot be."""

    remote: RemoteRepository
    connected_as: str | None = None
    problem: str | None = None


async def list_available(
    db: Database,
    platforms: Platforms,
    organization: str,
    connection_name: str,
    retry_budget: RetryBudget | None = None,
) -> list[AvailableRepository]:
    """All repositories that the connection can see, sorted by name. Raises Problem."""
    connection = await find_connection(db, organization, connection_name)
    rows = await db.fetch_all(
        "SELECT external_id, full_name FROM repos WHERE connection_id = :connection_id"
        " AND disconnected_at IS NULL",
        connection_id=connection.id,
    )
    connected = {row["external_id"]: row["full_name"] for row in rows}
    try:
        platform = await platforms.adapter_for(connection.id, retry_budget)
        remotes = [remote async for remote in platform.repositories()]
    except PlatformError as error:
        raise problem_from(error) from None
    return [
        AvailableRepository(
            remote, connected.get(remote.external_id), reason_not_connectable(remote)
        )
        for remote in sorted(remotes, key=lambda remote: remote.full_name.lower())
    ]


async def connect_repositories(
    db: Database,
    platforms: Platforms,
    organization: str,
    connection_name: str,
    names: Sequence[str] | None = None,
    retry_budget: RetryBudget | None = None,
    *,
    public_url: str = "",
    with_hooks: bool | None = None,
) -> list[ConnectResult]:
    """Connect the named repositories, or all that the connection can see. Raises Problem.

    Webhooks to `public_url` are registered if the platform can reach it; `with_hooks` decides
    otherwise. Without a `public_url` there are none.
    """
    connection = await find_connection(db, organization, connection_name)
    registers = decide_hooks(connection, public_url, with_hooks)
    connecting = _Connecting(db, connection, organization, registers)
    try:
        platform = await platforms.adapter_for(connection.id, retry_budget)
        if names is None:
            remotes = [remote async for remote in platform.repositories()]
            return [await connecting.try_connect(remote) for remote in remotes]
    except PlatformError as error:
        raise problem_from(error) from None
    limit = asyncio.Semaphore(_MAX_CONCURRENT_LOOKUPS)

    async def connect_named(name: str) -> ConnectResult:
        async with limit:
            return await connecting.connect_by_name(platform, name)

    return list(await asyncio.gather(*map(connect_named, dict.fromkeys(names))))


def decide_hooks(connection: Connection, public_url: str, with_hooks: bool | None) -> bool:
    """Whether to register webhooks. Raises Problem if they were asked for and cannot work."""
    reason = reason_unreachable(public_url, connection.url) if public_url else None
    if with_hooks and reason:
        raise Problem("hooks_unreachable", reason)
    return bool(public_url) and reason is None and with_hooks is not False


def reason_not_connectable(remote: RemoteRepository) -> str | None:
    """None if the repository can be connected, as far as its platform tells."""
    if remote.is_archived:
        return "It is archived, so nothing can be pushed to it; unarchive it on its platform first."
    if not remote.default_branch:
        return "It is empty; push a first commit to it."
    if not remote.may_push:
        return "The connection can read it but not push to it; grant its account write access."
    return None


@dataclass(frozen=True, slots=True)
class _Connecting:
    """Connects repositories; `registers` webhooks for them, or not."""

    db: Database
    connection: Connection
    organization: str
    registers: bool

    async def connect_by_name(self, platform: Platform, name: str) -> ConnectResult:
        try:
            address = RepoAddress(self.organization, validate_platform_name(name), repo_id="")
            remote = await platform.repository(address)
        except PlatformError as error:
            return ConnectResult(name, problem=problem_from(error))
        except Problem as problem:
            return ConnectResult(name, problem=problem)
        return await self.try_connect(remote)

    async def try_connect(self, remote: RemoteRepository) -> ConnectResult:
        try:
            return ConnectResult(remote.full_name, await self._connect(remote))
        except Problem as problem:
            return ConnectResult(remote.full_name, problem=problem)

    async def _connect(self, remote: RemoteRepository) -> RepoView:
        full_name = validate_platform_name(remote.full_name)
        if reason := reason_not_connectable(remote):
            raise Problem("repo_not_connectable", reason)
        entry = audit.entry("repo.connected", full_name, connection=self.connection.name)
        try:
            await self.db.transact(self._insert, remote, entry)
        except IntegrityError:
            # A concurrent request connected a repository of this name first.
            raise name_taken(full_name) from None
        return await find_repo(self.db, self.connection.organization_id, full_name)

    async def _insert(self, tx: Transaction, remote: RemoteRepository, entry: audit.Entry) -> None:
        await _lock(tx, self.connection)
        await _refuse_connected(tx, self.connection, remote)
        repo = NewPlatformRepo(
            organization_id=self.connection.organization_id,
            full_name=remote.full_name,
            platform=self.connection.platform,
            source=f"{self.connection.url}/{remote.full_name}",
            default_branch=remote.default_branch,
            connection_id=self.connection.id,
            external_id=remote.external_id,
        )
        repo_id = await insert_platform_repo(tx, repo, entry)
        if self.registers:
            await request_hooks(tx, [repo_id])


async def _lock(tx: Transaction, connection: Connection) -> None:
    """Keep the connection from being removed until the transaction ends."""
    row = await tx.fetch_one(
        "SELECT id FROM platform_connections WHERE id = :id AND removed_at IS NULL"
        " /*postgresql FOR SHARE */",
        id=connection.id,
    )
    if row is None:
        raise Problem("forge_not_found", f"The connection {connection.name} has been removed.")


async def _refuse_connected(
    tx: Transaction, connection: Connection, remote: RemoteRepository
) -> None:
    row = await tx.fetch_one(
        "SELECT full_name FROM repos WHERE connection_id = :connection_id"
        " AND external_id = :external_id AND disconnected_at IS NULL",
        connection_id=connection.id,
        external_id=remote.external_id,
    )
    if row is not None:
        raise Problem("repo_connected", f"It is already connected as {row['full_name']}.")
    row = await tx.fetch_one(
        "SELECT id FROM repos WHERE organization_id = :organization_id"
        " AND full_name = :full_name AND disconnected_at IS NULL",
        organization_id=connection.organization_id,
        full_name=remote.full_name,
    )
    if row is not None:
        raise name_taken(remote.full_name)
