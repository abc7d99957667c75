"""Where the service that runs is reached, told in the store: a command does not know its flags."""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Transaction

_STORED_NAME = "public_url"


async def store_public_url(db: Database, settings: Settings) -> None:
    await db.transact(_store, msgspec.json.encode(settings.effective_public_url).decode())


async def stored_public_url(db: Database, settings: Settings) -> str:
    """What is set comes first; else that of the service that started last; else the default."""
    if settings.public_url:
        return settings.effective_public_url
    row = await db.fetch_one(
        "SELECT value FROM effective_settings WHERE name = :name", name=_STORED_NAME
    )
    if row is None:
        return settings.effective_public_url
    return msgspec.json.decode(row["value"], type=str)


async def _store(tx: Transaction, value: str) -> None:
    await tx.execute(
        "INSERT INTO effective_settings (name, value, updated_at) VALUES (:name, :value, :now)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value,"
        " updated_at = excluded.updated_at",
        name=_STORED_NAME,
        value=value,
        now=now_ms(),
    )
