"""Secrets of environments, encrypted in the store: for setup, for the proxy and for registries.

Only the functions that open them return values, to the code that uses them. A changed secret of a
repository retires its snapshots.
"""

import msgspec

from agentjobs.environments.repo_settings import retire
from agentjobs.environments.secret_definition import Purpose, SecretDefinition, SecretUsage
from agentjobs.organizations import audit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.json_fields import copy_fields
from agentjobs_runtime.problems import Problem


class EnvironmentSecret(msgspec.Struct, frozen=True, kw_only=True):
    """All but the value. `repo` is the full name, empty for a registry."""

    definition: SecretDefinition
    repo: str
    key_id: str
    created_at: int
    updated_at: int


@audit.in_transaction
async def set_environment_secret(
    tx: Transaction,
    keys: SealingKeys,
    organization_id: str,
    definition: SecretDefinition,
    value: str,
) -> EnvironmentSecret:
    """Create the secret or replace it. Expects a definition of `parse_secret`."""
    if definition.repo_id and not await retire(tx, definition.repo_id):
        raise Problem("repo_not_connected", "The repository is no longer connected.")
    usage = msgspec.json.encode(definition.usage).decode()
    sealed = keys.seal(value, *_seal_context(organization_id, definition, usage))
    row = await tx.fetch_one(
        "INSERT INTO environment_secrets (organization_id, repo_id, name, purpose, host, usage,"
        " sealed, key_id, created_at, updated_at) VALUES (:organization_id, :repo_id, :name,"
        " :purpose, :host, :usage, :sealed, :key_id, :now, :now)"
        " ON CONFLICT (organization_id, repo_id, name) DO UPDATE SET purpose = excluded.purpose,"
        " host = excluded.host, usage = excluded.usage, sealed = excluded.sealed,"
        " key_id = excluded.key_id, updated_at = excluded.updated_at RETURNING *",
        organization_id=organization_id,
        repo_id=definition.repo_id,
        name=definition.name,
        purpose=definition.purpose,
        host=definition.host,
        usage=usage,
        sealed=sealed.data,
        key_id=sealed.key_id,
        now=now_ms(),
    )
    assert row is not None
    repo = await _repo_name(tx, definition.repo_id)
    await audit.record(
        tx,
        organization_id,
        "secret.set",
        definition.name,
        purpose=definition.purpose,
        **({"repo": repo} if repo else {}),
        **({"host": definition.host} if definition.host else {}),
    )
    return _secret({**dict(row), "repo": repo})


async def list_environment_secrets(
    db: Database, organization_id: str, repo_id: str | None = None
) -> list[EnvironmentSecret]:
    """Secrets of the whole organization, or of one repository."""
    rows = await db.fetch_all(
        "SELECT s.*, COALESCE(r.full_name, '') AS repo FROM environment_secrets s"
        " LEFT JOIN repos r ON r.id = s.repo_id WHERE s.organization_id = :organization_id"
        " AND (CAST(:repo_id AS TEXT) IS NULL OR s.repo_id = :repo_id) ORDER BY repo, s.name",
        organization_id=organization_id,
        repo_id=repo_id,
    )
    return [_secret(row) for row in rows]


@audit.in_transaction
async def remove_environment_secret(
    tx: Transaction, organization_id: str, repo_id: str, name: str
) -> None:
    """Raises Problem if it does not exist. `repo_id` is empty for a registry."""
    repo = await _repo_name(tx, repo_id)
    deleted = await tx.execute(
        "DELETE FROM environment_secrets WHERE organization_id = :organization_id"
        " AND repo_id = :repo_id AND name = :name",
        organization_id=organization_id,
        repo_id=repo_id,
        name=name,
    )
    if not deleted:
        whose = f"The repository {repo!r}" if repo else "The organization"
        kind = "for setup or the proxy" if repo else "for a registry"
        raise Problem(
            "secret_not_found",
            f"{whose} has no secret {name!r} {kind}; `agentjobs secrets list` shows all secrets.",
        )
    if repo_id:
        await retire(tx, repo_id)
    await audit.record(
        tx, organization_id, "secret.removed", name, **({"repo": repo} if repo else {})
    )


async def open_setup_secrets(db: Database, keys: SealingKeys, repo_id: str) -> dict[str, str]:
    """The values by the names of their variables. Raises DecryptionFailed."""
    rows = await _of_repo(db, repo_id, "setup")
    return {row["name"]: _open_row(keys, row) for row in rows}


async def open_proxy_secrets(db: Database, keys: SealingKeys, repo_id: str) -> list[BrokeredHost]:
    """Raises DecryptionFailed."""
    hosts = []
    for row in await _of_repo(db, repo_id, "proxy"):
        usage = msgspec.json.decode(row["usage"], type=SecretUsage)
        secret = _open_row(keys, row)
        hosts.append(
            copy_fields(usage, BrokeredHost, name=row["name"], host=row["host"], secret=secret)
        )
    return hosts


async def open_registry_credentials(
    db: Database, keys: SealingKeys, organization_id: str
) -> list[RegistryCredential]:
    """If a host has several, the last one is the latest. Raises DecryptionFailed."""
    rows = await db.fetch_all(
        "SELECT * FROM environment_secrets WHERE organization_id = :organization_id"
        " AND repo_id = '' AND purpose = 'registry' ORDER BY updated_at, name",
        organization_id=organization_id,
    )
    return [
        RegistryCredential(
            row["host"],
            msgspec.json.decode(row["usage"], type=SecretUsage).username,
            _open_row(keys, row),
        )
        for row in rows
    ]


def _open_row(keys: SealingKeys, row: Row) -> str:
    """Raises DecryptionFailed."""
    return keys.open_named(f"The secret {row['name']}", bytes(row["sealed"]), *row_context(row))


def row_context(row: Row) -> tuple[str, ...]:
    """Binds a value to its use: a writer of the database cannot send it to another host."""
    definition = SecretDefinition(
        name=row["name"], purpose=row["purpose"], repo_id=row["repo_id"], host=row["host"]
    )
    return _seal_context(row["organization_id"], definition, row["usage"])


def _seal_context(
    organization_id: str, definition: SecretDefinition, usage: str
) -> tuple[str, ...]:
    return (
        "environment_secret",
        organization_id,
        definition.repo_id,
        definition.name,
        definition.purpose,
        definition.host,
        usage,
    )


async def _of_repo(db: Database, repo_id: str, purpose: Purpose) -> list[Row]:
    return await db.fetch_all(
        "SELECT * FROM environment_secrets WHERE organization_id ="
        " (SELECT r.organization_id FROM repos r WHERE r.id = :repo_id)"
        " AND repo_id = :repo_id AND purpose = :purpose ORDER BY name",
        repo_id=repo_id,
        purpose=purpose,
    )


async def _repo_name(db: Database | Transaction, repo_id: str) -> str:
    row = await db.fetch_one("SELECT full_name FROM repos WHERE id = :id", id=repo_id)
    return "" if row is None else str(row["full_name"])


def _secret(row: Row) -> EnvironmentSecret:
    usage = msgspec.json.decode(row["usage"], type=SecretUsage)
    return to_struct(
        row, EnvironmentSecret, definition=to_struct(row, SecretDefinition, usage=usage)
    )
