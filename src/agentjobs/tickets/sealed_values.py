"""Finds and replaces the sealed tokens of trackers when the encryption key is rotated."""

from agentjobs.organizations.key_rotation import SealedValue, SealedValues
from agentjobs.organizations.sealing import Sealed
from agentjobs.store.database import Database, Transaction
from agentjobs.tickets.trackers import seal_context


async def _find(db: Database, key_id: str, limit: int, offset: int) -> list[SealedValue]:
    """Trackers without a token, and removed ones, have no key."""
    rows = await db.fetch_all(
        "SELECT id, organization_id, sealed FROM trackers WHERE key_id <> :key_id"
        " ORDER BY id LIMIT :limit OFFSET :offset",
        key_id=key_id,
        limit=limit,
        offset=offset,
    )
    return [
        SealedValue(
            f"The token of the tracker {row['id']}",
            bytes(row["sealed"]),
            seal_context(row["organization_id"], row["id"]),
            (row["id"],),
        )
        for row in rows
    ]


async def _replace(tx: Transaction, value: SealedValue, sealed: Sealed) -> None:
    await tx.execute(
        "UPDATE trackers SET sealed = :sealed, key_id = :key_id"
        " WHERE id = :id AND sealed = :before",
        id=value.row[0],
        sealed=sealed.data,
        key_id=sealed.key_id,
        before=value.sealed,
    )


SEALED_TOKENS = SealedValues("trackers", _find, _replace)
