"""An organization's connections to platforms. Credentials are stored sealed and never shown.

Contacts no platform: `verify` and `adapters` do, with the credentials opened here.
"""

import secrets
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from agentjobs.connections import health
from agentjobs.connections import rows as connection_rows
from agentjobs.connections.rows import count_repositories, not_found, retry_refused, update
from agentjobs.connections.validate import (
    name_taken,
    validate_credential,
    validate_installation,
    validate_name,
    validate_platform,
    validate_url,
)
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization, find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection, ConnectionKind
from agentjobs.repos.hook_rows import make_due
from agentjobs.store.database import Database, IntegrityError, Row, Transaction, to_struct
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnection:
    """`credential` is a token or an app's private key; an empty name or URL means the default."""

    platform: str
    credential: str = field(repr=False)
    url: str = ""
    name: str = ""
    app_id: str | None = None
    installation_id: str | None = None


class AddedConnection(NamedTuple):
    """`hook_secret` is shown only once."""

    connection: Connection
    hook_secret: str


def draft_from(organization: Organization, new: NewConnection) -> Connection:
    """A connection that is not stored; its name may still be empty. Raises Problem."""
    platform = validate_platform(new.platform)
    app_id, installation_id = validate_installation(platform, new.app_id, new.installation_id)
    kind: ConnectionKind = "token" if app_id is None else "app"
    validate_credential(kind, new.credential)
    return Connection(
        id=new_id("fcn"),
        organization_id=organization.id,
        platform=platform,
        kind=kind,
        name=validate_name(new.name) if new.name else "",
        url=validate_url(platform, new.url),
        app_id=app_id,
        installation_id=installation_id,
        created_at=now_ms(),
    )


async def store_connection(
    db: Database, keys: SealingKeys, connection: Connection, credential: str
) -> AddedConnection:
    hook_secret = _new_hook_secret()
    sealed = (
        keys.seal(credential, *seal_context(connection.organization_id, connection.id)),
        keys.seal(hook_secret, *hook_seal_context(connection.organization_id, connection.id)),
    )
    name = connection.name or await _unused_name(db, connection)
    named = msgspec.structs.replace(connection, name=name)
    entry = audit.entry("forge.connected", name, platform=named.platform, url=named.url)
    try:
        await db.transact(connection_rows.insert, named, *sealed, entry)
    except IntegrityError:
        raise name_taken(name) from None
    return AddedConnection(named, hook_secret)


async def list_connections(db: Database, organization: str) -> list[Connection]:
    """Sorted by name."""
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT * FROM platform_connections WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY name",
        organization_id=owner.id,
    )
    return [to_struct(row, Connection) for row in rows]


async def find_connection(db: Database | Transaction, organization: str, name: str) -> Connection:
    """Find a connection by its name or ID."""
    owner = await find_organization(db, organization)
    row = await db.fetch_one(
        "SELECT * FROM platform_connections WHERE organization_id = :organization_id"
        " AND (name = :name OR id = :name) AND removed_at IS NULL",
        organization_id=owner.id,
        name=name,
    )
    if row is None:
        raise not_found(name)
    return to_struct(row, Connection)


@audit.in_transaction
async def replace_credential(
    tx: Transaction, keys: SealingKeys, organization: str, name: str, credential: str
) -> Connection:
    connection = await find_connection(tx, organization, name)
    validate_credential(connection.kind, credential)
    sealed = keys.seal(credential, *seal_context(connection.organization_id, connection.id))
    assignments = "sealed = :sealed, key_id = :key_id, error = NULL"
    await update(tx, connection, assignments, sealed=sealed.data, key_id=sealed.key_id)
    await retry_refused(tx, connection)
    await audit.record(tx, connection.organization_id, "forge.credential_replaced", connection.name)
    return await find_connection(tx, organization, connection.id)


@audit.in_transaction
async def rotate_hook_secret(
    tx: Transaction, keys: SealingKeys, organization: str, name: str
) -> str:
    """Returns the new secret; hooks signed with the old one are refused from now on."""
    connection = await find_connection(tx, organization, name)
    hook_secret = _new_hook_secret()
    sealed = keys.seal(hook_secret, *hook_seal_context(connection.organization_id, connection.id))
    assignments = "hook_sealed = :sealed, hook_key_id = :key_id, hook_seen_at = NULL"
    await update(tx, connection, assignments, sealed=sealed.data, key_id=sealed.key_id)
    await make_due(tx, connection.id, with_new_secrets=True)
    await audit.record(tx, connection.organization_id, "forge.hook_secret_rotated", connection.name)
    return hook_secret


@audit.in_transaction
async def remove_connection(tx: Transaction, organization: str, name: str) -> Connection:
    """Delete the credentials too. Raises Problem while repositories are connected through it."""
    connection = await find_connection(tx, organization, name)
    # Locked, so that no repository is connected meanwhile.
    await tx.fetch_one(
        "SELECT id FROM platform_connections WHERE id = :id /*postgresql FOR UPDATE */",
        id=connection.id,
    )
    if number := await count_repositories(tx, connection.id):
        what = "1 repository is" if number == 1 else f"{number} repositories are"
        raise Problem(
            "forge_in_use",
            f"{what} connected through {connection.name}; disconnect them first.",
        )
    await update(
        tx,
        connection,
        "removed_at = :now, sealed = :nothing, key_id = '', hook_sealed = :nothing,"
        " hook_key_id = '', signing = 'none', signing_sealed = NULL, signing_key_id = ''",
        nothing=b"",
    )
    await audit.record(tx, connection.organization_id, "forge.removed", connection.name)
    return connection


async def open_credential(
    db: Database, keys: SealingKeys, connection_id: str
) -> tuple[Connection, str]:
    """Raises Problem if the connection was removed or its credential cannot be decrypted."""
    row = await _row(db, connection_id)
    if row is None:
        raise not_found(connection_id)
    connection = to_struct(row, Connection)
    return connection, _open_sealed(
        keys, connection, row["sealed"], seal_context(connection.organization_id, connection.id)
    )


async def open_hook_secret(
    db: Database, keys: SealingKeys, connection_id: str
) -> tuple[Connection, str] | None:
    """None if there is no such connection. Raises Problem if the secret cannot be decrypted."""
    row = await _row(db, connection_id)
    if row is None:
        return None
    connection = to_struct(row, Connection)
    return connection, _open_sealed(
        keys,
        connection,
        row["hook_sealed"],
        hook_seal_context(connection.organization_id, connection.id),
    )


async def load_connection(db: Database, connection_id: str) -> Connection | None:
    """None if it was removed."""
    row = await _row(db, connection_id)
    return None if row is None else to_struct(row, Connection)


async def list_all_connections(db: Database) -> list[Connection]:
    """Connections of all organizations."""
    rows = await db.fetch_all(
        "SELECT * FROM platform_connections WHERE removed_at IS NULL ORDER BY id"
    )
    return [to_struct(row, Connection) for row in rows]


def _new_hook_secret() -> str:
    return secrets.token_hex(32)


def seal_context(organization_id: str, connection_id: str) -> tuple[str, ...]:
    return ("forge", organization_id, connection_id)


def hook_seal_context(organization_id: str, connection_id: str) -> tuple[str, ...]:
    return ("forge-hook", organization_id, connection_id)


def signing_seal_context(organization_id: str, connection_id: str) -> tuple[str, ...]:
    return ("forge-signing", organization_id, connection_id)


record_check = in_transaction(health.record_check)


def _open_sealed(
    keys: SealingKeys, connection: Connection, sealed: bytes, context: tuple[str, ...]
) -> str:
    return keys.open_named(f"The credential of {connection.name}", bytes(sealed), *context)


async def _row(db: Database, connection_id: str) -> Row | None:
    return await db.fetch_one(
        "SELECT * FROM platform_connections WHERE id = :id AND removed_at IS NULL", id=connection_id
    )


async def _unused_name(db: Database, connection: Connection) -> str:
    rows = await db.fetch_all(
        "SELECT name FROM platform_connections WHERE organization_id = :organization_id"
        " AND removed_at IS NULL",
        organization_id=connection.organization_id,
    )
    taken = {row["name"] for row in rows}
    numbered = (f"{connection.platform}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (connection.platform, *numbered) if name not in taken)
