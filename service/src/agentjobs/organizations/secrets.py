"""Secrets of an organization, such as keys of model providers, encrypted in the store.

Only `open_secret` returns a value, to the code that uses it; no page or command shows one.
"""

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import is_secret_name
from agentjobs_runtime.problems import Problem

MAX_VALUE_BYTES = 32 * 1024


class Secret(msgspec.Struct, frozen=True):
    """Everything about a secret except its value."""

    name: str
    key_id: str
    created_at: int
    updated_at: int


@audit.in_transaction
async def set_secret(
    tx: Transaction, keys: SealingKeys, organization: str, name: str, value: str
) -> Secret:
    """Create the secret or replace its value."""
    check_secret(name, value)
    owner = await find_organization(tx, organization)
    sealed = keys.seal(value, *seal_context(owner.id, name))
    row = await tx.fetch_one(
        "INSERT INTO secrets (organization_id, name, sealed, key_id, created_at, updated_at)"
        " VALUES (:organization_id, :name, :sealed, :key_id, :now, :now)"
        " ON CONFLICT (organization_id, name) DO UPDATE SET sealed = excluded.sealed,"
        " key_id = excluded.key_id, updated_at = excluded.updated_at"
        " RETURNING name, key_id, created_at, updated_at",
        organization_id=owner.id,
        name=name,
        sealed=sealed.data,
        key_id=sealed.key_id,
        now=now_ms(),
    )
    assert row is not None
    await audit.record(tx, owner.id, "secret.set", name)
    return to_struct(row, Secret)


async def list_secrets(db: Database, organization: str) -> list[Secret]:
    owner = await find_organization(db, organization)
    rows = await db.fetch_all(
        "SELECT name, key_id, created_at, updated_at FROM secrets"
        " WHERE organization_id = :organization_id ORDER BY name",
        organization_id=owner.id,
    )
    return [to_struct(row, Secret) for row in rows]


@audit.in_transaction
async def remove_secret(tx: Transaction, organization: str, name: str) -> None:
    owner = await find_organization(tx, organization)
    deleted = await tx.execute(
        "DELETE FROM secrets WHERE organization_id = :organization_id AND name = :name",
        organization_id=owner.id,
        name=name,
    )
    if not deleted:
        raise Problem(
            "secret_not_found",
            f"The organization {organization!r} has no secret {name!r}; "
            f"`agentjobs secrets list --org {organization}` shows all secrets.",
        )
    await audit.record(tx, owner.id, "secret.removed", name)


async def open_secret(
    db: Database, keys: SealingKeys, organization_id: str, name: str
) -> str | None:
    """None if the secret does not exist. Raises DecryptionFailed."""
    row = await db.fetch_one(
        "SELECT sealed FROM secrets WHERE organization_id = :organization_id AND name = :name",
        organization_id=organization_id,
        name=name,
    )
    if row is None:
        return None
    return keys.open_named(
        f"The secret {name}", bytes(row["sealed"]), *seal_context(organization_id, name)
    )


async def list_secret_names(db: Database) -> frozenset[str]:
    """Names of the secrets of all organizations."""
    rows = await db.fetch_all("SELECT DISTINCT name FROM secrets")
    return frozenset(row["name"] for row in rows)


def check_secret(name: str, value: str) -> None:
    """Raises Problem."""
    if not is_secret_name(name):
        raise Problem(
            "invalid_name",
            f"{name!r} is not a valid secret name: use 1 to 64 letters, digits and underscores, "
            "not starting with a digit, such as ANTHROPIC_API_KEY.",
        )
    if not value.strip():
        raise Problem("invalid_secret", "The secret is empty; pass its value on standard input.")
    if "\0" in value or len(value.encode()) > MAX_VALUE_BYTES:
        raise Problem(
            "invalid_secret",
            f"A secret must be text of at most {MAX_VALUE_BYTES:,} bytes without null bytes.",
        )


def seal_context(organization_id: str, name: str) -> tuple[str, ...]:
    return ("secret", organization_id, name)
