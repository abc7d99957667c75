"""Finds and replaces the sealed secrets of environments when the encryption key is rotated."""

from agentjobs.environments.secrets import context_of, open_row
from agentjobs.organizations.key_rotation import SealedValue, SealedValues
from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.store.database import Database, Transaction


async def check_environment_secrets(db: Database, keys: SealingKeys) -> int:
    """The number of secrets in all organizations. Raises DecryptionFailed."""
    rows = await db.fetch_all("SELECT * FROM environment_secrets ORDER BY name")
    for row in rows:
        open_row(keys, row)
    return len(rows)


async def _find(db: Database, key_id: str, limit: int, offset: int) -> list[SealedValue]:
    rows = await db.fetch_all(
        "SELECT * FROM environment_secrets WHERE key_id <> :key_id"
        " ORDER BY organization_id, repo_id, name LIMIT :limit OFFSET :offset",
        key_id=key_id,
        limit=limit,
        offset=offset,
    )
    return [
        SealedValue(
            f"The secret {row['name']} of {row['repo_id'] or row['organization_id']}",
            bytes(row["sealed"]),
            context_of(row),
            (row["organization_id"], row["repo_id"], row["name"]),
        )
        for row in rows
    ]


async def _replace(tx: Transaction, value: SealedValue, sealed: Sealed) -> None:
    organization_id, repo_id, name = value.row
    await tx.execute(
        "UPDATE environment_secrets SET sealed = :sealed, key_id = :key_id"
        " WHERE organization_id = :organization_id AND repo_id = :repo_id AND name = :name"
        " AND sealed = :before",
        organization_id=organization_id,
        repo_id=repo_id,
        name=name,
        sealed=sealed.data,
        key_id=sealed.key_id,
        before=value.sealed,
    )


SEALED_ENVIRONMENT_SECRETS = SealedValues("environments", _find, _replace)
