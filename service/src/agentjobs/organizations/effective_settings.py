"""Settings of the running service, stored so that commands use the same values.

A command does not see the flags that the service was started with.
"""

from typing import TypeVar

import msgspec

from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.settings import Settings

T = TypeVar("T")

_PUBLIC_URL = "public_url"


async def store_setting(db: Database, name: str, value: str | list[str]) -> None:
    await db.transact(
        execute,
        "INSERT INTO effective_settings (name, value, updated_at) VALUES (:name, :value, :now)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value,"
        " updated_at = excluded.updated_at",
        name=name,
        value=msgspec.json.encode(value).decode(),
        now=now_ms(),
    )


@in_transaction
async def load_or_store_setting(tx: Transaction, name: str, value: str) -> str:
    """Store the value unless there is one; returns the stored value."""
    await tx.execute(
        "INSERT INTO effective_settings (name, value, updated_at) VALUES (:name, :value, :now)"
        " ON CONFLICT (name) DO NOTHING",
        name=name,
        value=msgspec.json.encode(value).decode(),
        now=now_ms(),
    )
    row = await tx.fetch_one("SELECT value FROM effective_settings WHERE name = :name", name=name)
    assert row is not None
    return msgspec.json.decode(row["value"], type=str)


async def load_setting(db: Database, name: str, type_: type[T]) -> T | None:
    """None if no service has stored it yet."""
    row = await db.fetch_one("SELECT value FROM effective_settings WHERE name = :name", name=name)
    return None if row is None else msgspec.json.decode(row["value"], type=type_)


async def setting_changed_at(db: Database, name: str) -> int | None:
    """None if it was never stored."""
    row = await db.fetch_one(
        "SELECT updated_at FROM effective_settings WHERE name = :name", name=name
    )
    return None if row is None else row["updated_at"]


async def store_public_url(db: Database, settings: Settings) -> None:
    await store_setting(db, _PUBLIC_URL, settings.effective_public_url)


async def load_public_url(db: Database, settings: Settings) -> str:
    """The setting if given, else the URL of the service that started last, else the default."""
    stored = None if settings.public_url else await load_setting(db, _PUBLIC_URL, str)
    return stored or settings.effective_public_url
