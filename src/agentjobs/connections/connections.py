"""Connections of an organization to platforms, as rows. Credentials are sealed, shown to nobody.

Asks no platform anything: `platforms` does, with what is opened here.
"""

import secrets
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from agentjobs.clock import now_ms
from agentjobs.connections import rows as connection_rows
from agentjobs.connections.rows import connection_of, not_found
from agentjobs.connections.validate import (
    checked_credential,
    checked_installation,
    checked_name,
    checked_platform,
    checked_url,
    name_taken,
)
from agentjobs.forges.connection import Connection, ConnectionKind
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization, find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database, IntegrityError, Row

__all__ = [
    "AddedConnection",
    "NewConnection",
    "add_connection",
    "all_connections",
    "connected_repositories",
    "draft_of",
    "find_connection",
    "list_connections",
    "note_check",
    "open_credential",
    "open_hook_secret",
    "remove_connection",
    "replace_credential",
    "rotate_hook_secret",
    "store_connection",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnection:
    """`credential` is a token, or the private key of an app; an empty name or url: the usual."""

    platform: str
    credential: str = field(repr=False)
    url: str = ""
    name: str = ""
    app_id: str | None = None
    installation_id: str | None = None


class AddedConnection(NamedTuple):
    """`hook_secret` is shown this once."""

    connection: Connection
    hook_secret: str


def draft_of(organization: Organization, new: NewConnection) -> Connection:
    """What it would be, with nothing stored; its name may still be empty. Raises Problem."""
    platform = checked_platform(new.platform)
    app_id, installation_id = checked_installation(platform, new.app_id, new.installation_id)
    kind: ConnectionKind = "token" if app_id is None else "app"
    checked_credential(kind, new.credential)
    return Connection(
        id=new_id("fcn"),
        organization_id=organization.id,
        platform=platform,
        kind=kind,
        name=checked_name(new.name) if new.name else "",
        url=checked_url(platform, new.url),
        app_id=app_id,
        installation_id=installation_id,
        created_at=now_ms(),
    )


async def add_connection(
    db: Database, keys: SealingKeys, organization: str, new: NewConnection
) -> AddedConnection:
    """`platforms.add_checked` asks the platform first."""
    owner = await find_organization(db, organization)
    return await store_connection(db, keys, draft_of(owner, new), new.credential)


async def store_connection(
    db: Database, keys: SealingKeys, connection: Connection, credential: str
) -> AddedConnection:
    hook_secret = _new_hook_secret()
    sealed = (
        keys.seal(credential, *_context(connection)),
        keys.seal(hook_secret, *_hook_context(connection)),
    )
    name = connection.name or await _free_name(db, connection)
    named = msgspec.structs.replace(connection, name=name)
    entry = audit.entry("forge.connected", name, platform=named.platform, url=named.url)
    try:
        await db.transact(connection_rows.insert, named, *sealed, entry)
    except IntegrityError:
        raise name_taken(name) from None
    return AddedConnection(named, hook_secret)


async def list_connections(db: Database, organization: str) -> list[Connection]:
    """By their names."""
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT * FROM forge_connections WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY name",
        organization_id=owner.id,
    )
    return [connection_of(row) for row in rows]


async def find_connection(db: Database, organization: str, name: str) -> Connection:
    """By its name or its identifier."""
    owner = await find_organization(db, organization)
    row = await db.fetch_one(
        "SELECT * FROM forge_connections WHERE organization_id = :organization_id"
        " AND (name = :name OR id = :name) AND removed_at IS NULL",
        organization_id=owner.id,
        name=name,
    )
    if row is None:
        raise not_found(name)
    return connection_of(row)


async def replace_credential(
    db: Database, keys: SealingKeys, organization: str, name: str, credential: str
) -> Connection:
    found = await find_connection(db, organization, name)
    checked_credential(found.kind, credential)
    sealed = keys.seal(credential, *_context(found))
    entry = audit.entry("forge.credential_replaced", found.name)
    await db.transact(connection_rows.replace_credential, found, sealed, entry)
    return await find_connection(db, organization, found.id)


async def rotate_hook_secret(db: Database, keys: SealingKeys, organization: str, name: str) -> str:
    """The new one, shown this once; what is signed with the old one is refused from now on."""
    found = await find_connection(db, organization, name)
    hook_secret = _new_hook_secret()
    sealed = keys.seal(hook_secret, *_hook_context(found))
    entry = audit.entry("forge.hook_secret_rotated", found.name)
    await db.transact(connection_rows.replace_hook_secret, found, sealed, entry)
    return hook_secret


async def remove_connection(db: Database, organization: str, name: str) -> Connection:
    """Its credentials are gone with it. Raises Problem while repositories are connected by it."""
    found = await find_connection(db, organization, name)
    await db.transact(connection_rows.remove, found, audit.entry("forge.removed", found.name))
    return found


async def note_check(
    db: Database, connection_id: str, *, account: str | None = None, error: str | None = None
) -> None:
    """What the platform said when it was asked; without an account the one it has stays."""
    await db.transact(connection_rows.note_check, connection_id, account, error)


async def open_credential(
    db: Database, keys: SealingKeys, connection_id: str
) -> tuple[Connection, str]:
    """Raises Problem if it was removed, or cannot be opened here."""
    row = await _row(db, connection_id)
    if row is None:
        raise not_found(connection_id)
    connection = connection_of(row)
    return connection, _opened(keys, connection, row["sealed"], _context(connection))


async def open_hook_secret(
    db: Database, keys: SealingKeys, connection_id: str
) -> tuple[Connection, str] | None:
    """None: there is no such connection. Raises Problem if it cannot be opened here."""
    row = await _row(db, connection_id)
    if row is None:
        return None
    connection = connection_of(row)
    return connection, _opened(keys, connection, row["hook_sealed"], _hook_context(connection))


async def all_connections(db: Database) -> list[Connection]:
    """Of every organization."""
    rows = await db.fetch_all(
        "SELECT * FROM forge_connections WHERE removed_at IS NULL ORDER BY id"
    )
    return [connection_of(row) for row in rows]


async def connected_repositories(db: Database, connection_id: str) -> int:
    row = await db.fetch_one(
        "SELECT COUNT(*) AS number FROM repos"
        " WHERE connection_id = :id AND disconnected_at IS NULL",
        id=connection_id,
    )
    assert row is not None
    return int(row["number"])


def _new_hook_secret() -> str:
    return secrets.token_hex(32)


def _context(connection: Connection) -> tuple[str, ...]:
    return ("forge", connection.organization_id, connection.id)


def _hook_context(connection: Connection) -> tuple[str, ...]:
    return ("forge-hook", connection.organization_id, connection.id)


def _opened(
    keys: SealingKeys, connection: Connection, sealed: bytes, context: tuple[str, ...]
) -> str:
    try:
        return keys.open(bytes(sealed), *context)
    except Problem as problem:
        reason = f"The credential of {connection.name} is locked. {problem.message}"
        raise Problem(problem.code, reason) from None


async def _row(db: Database, connection_id: str) -> Row | None:
    return await db.fetch_one(
        "SELECT * FROM forge_connections WHERE id = :id AND removed_at IS NULL", id=connection_id
    )


async def _free_name(db: Database, connection: Connection) -> str:
    rows = await db.fetch_all(
        "SELECT name FROM forge_connections WHERE organization_id = :organization_id"
        " AND removed_at IS NULL",
        organization_id=connection.organization_id,
    )
    taken = {row["name"] for row in rows}
    numbered = (f"{connection.platform}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (connection.platform, *numbered) if name not in taken)
