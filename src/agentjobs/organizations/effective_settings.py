"""What a running service tells in the store of the settings it runs with, for commands to see."""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.store.database import Database, Transaction


async def tell(db: Database, name: str, value: str | list[str]) -> None:
    await db.transact(_store, name, msgspec.json.encode(value).decode())


async def told(db: Database, name: str) -> bytes | None:
    """As JSON; None before a service has said so."""
    row = await db.fetch_one("SELECT value FROM effective_settings WHERE name = :name", name=name)
    return None if row is None else row["value"].encode()


async def _store(tx: Transaction, name: str, value: str) -> None:
    await tx.execute(
        "INSERT INTO effective_settings (name, value, updated_at) VALUES (:name, :value, :now)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value,"
        " updated_at = excluded.updated_at",
        name=name,
        value=value,
        now=now_ms(),
    )
