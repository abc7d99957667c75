"""Finds and replaces the sealed values of connections when the encryption key is rotated."""

from agentjobs.connections.connections import hook_seal_context, seal_context
from agentjobs.organizations.key_rotation import SealedValue, SealedValues
from agentjobs.organizations.sealing import Sealed
from agentjobs.store.database import Database, Transaction


async def _find(db: Database, key_id: str, limit: int, offset: int) -> list[SealedValue]:
    """Removed connections have empty values."""
    rows = await db.fetch_all(
        "SELECT id, organization_id, sealed, 'sealed' AS name FROM forge_connections"
        " WHERE key_id <> :key_id AND removed_at IS NULL"
        " UNION ALL SELECT id, organization_id, hook_sealed, 'hook_sealed'"
        " FROM forge_connections WHERE hook_key_id <> :key_id AND removed_at IS NULL"
        " ORDER BY id, name LIMIT :limit OFFSET :offset",
        key_id=key_id,
        limit=limit,
        offset=offset,
    )
    return [
        SealedValue(
            f"The credential of {row['id']}",
            bytes(row["sealed"]),
            (hook_seal_context if row["name"] == "hook_sealed" else seal_context)(
                row["organization_id"], row["id"]
            ),
            (row["id"],),
            row["name"],
        )
        for row in rows
    ]


async def _replace(tx: Transaction, value: SealedValue, sealed: Sealed) -> None:
    statement = (
        "UPDATE forge_connections SET hook_sealed = :sealed, hook_key_id = :key_id"
        " WHERE id = :id AND hook_sealed = :before"
        if value.column == "hook_sealed"
        else "UPDATE forge_connections SET sealed = :sealed, key_id = :key_id"
        " WHERE id = :id AND sealed = :before"
    )
    await tx.execute(
        statement,
        id=value.row[0],
        sealed=sealed.data,
        key_id=sealed.key_id,
        before=value.sealed,
    )


SEALED_CREDENTIALS = SealedValues("platforms", _find, _replace)
