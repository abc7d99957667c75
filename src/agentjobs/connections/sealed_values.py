"""Finds and replaces the sealed values of connections when the encryption key is rotated."""

from collections.abc import Callable, Mapping

from agentjobs.connections.connections import (
    hook_seal_context,
    seal_context,
    signing_seal_context,
)
from agentjobs.organizations.key_rotation import SealedValue, SealedValues
from agentjobs.organizations.sealing import Sealed
from agentjobs.store.database import Database, Transaction

_CONTEXTS: Mapping[str, Callable[[str, str], tuple[str, ...]]] = {
    "sealed": seal_context,
    "hook_sealed": hook_seal_context,
    "signing_sealed": signing_seal_context,
}


async def _find(db: Database, key_id: str, limit: int, offset: int) -> list[SealedValue]:
    """Removed connections have empty values."""
    rows = await db.fetch_all(
        "SELECT id, organization_id, sealed, 'sealed' AS name FROM forge_connections"
        " WHERE key_id <> :key_id AND removed_at IS NULL"
        " UNION ALL SELECT id, organization_id, hook_sealed, 'hook_sealed'"
        " FROM forge_connections WHERE hook_key_id <> :key_id AND removed_at IS NULL"
        " UNION ALL SELECT id, organization_id, signing_sealed, 'signing_sealed'"
        " FROM forge_connections WHERE signing_key_id <> :key_id AND signing_sealed IS NOT NULL"
        " ORDER BY id, name LIMIT :limit OFFSET :offset",
        key_id=key_id,
        limit=limit,
        offset=offset,
    )
    return [
        SealedValue(
            f"The credential of {row['id']}",
            bytes(row["sealed"]),
            _CONTEXTS[row["name"]](row["organization_id"], row["id"]),
            (row["id"],),
            row["name"],
        )
        for row in rows
    ]


_REPLACE = {
    "sealed": "UPDATE forge_connections SET sealed = :sealed, key_id = :key_id"
    " WHERE id = :id AND sealed = :before",
    "hook_sealed": "UPDATE forge_connections SET hook_sealed = :sealed, hook_key_id = :key_id"
    " WHERE id = :id AND hook_sealed = :before",
    "signing_sealed": "UPDATE forge_connections SET signing_sealed = :sealed,"
    " signing_key_id = :key_id WHERE id = :id AND signing_sealed = :before",
}


async def _replace(tx: Transaction, value: SealedValue, sealed: Sealed) -> None:
    await tx.execute(
        _REPLACE[value.column],
        id=value.row[0],
        sealed=sealed.data,
        key_id=sealed.key_id,
        before=value.sealed,
    )


SEALED_CREDENTIALS = SealedValues("platforms", _find, _replace)
