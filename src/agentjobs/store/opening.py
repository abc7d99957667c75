"""Opens a database by its URL and ensures that its schema is current."""

from pathlib import Path

from agentjobs.store.database import Database, SchemaTooOld, StoreError
from agentjobs.store.revisions import is_behind, schema_is_current
from agentjobs.store.sqlite.database import SqliteDatabase

__all__ = ["open_database", "open_unchecked", "schema_is_current"]

_SQLITE = "sqlite:///"


async def open_database(url: str, *, migrate: bool) -> Database:
    """Open the database. With `migrate`, an old schema is migrated, otherwise refused."""
    db = await open_unchecked(url)
    try:
        if await is_behind(db):
            if not migrate:
                raise SchemaTooOld(
                    "the database has an older schema than this program; run `agentjobs migrate`"
                )
            await _migrate(url)
    except BaseException:
        await db.close()
        raise
    return db


async def open_unchecked(url: str, *, listen: bool = True) -> Database:
    """Open the database without checking its schema.

    Without `listen`, no connection waits for changes of other processes, and `changes` is not live.
    """
    if url.startswith(_SQLITE):
        return await SqliteDatabase.open(_sqlite_path(url))
    if url.startswith(("postgresql://", "postgres://")):
        # asyncpg takes longer to import than the rest of the store, and SQLite does not need it.
        from agentjobs.store.postgresql.database import PostgresqlDatabase  # noqa: PLC0415

        return await PostgresqlDatabase.open(url, listen=listen)
    raise StoreError("a database URL must start with sqlite:/// or postgresql://")


async def _migrate(url: str) -> None:
    # Alembic takes most of a second to import, and most starts do not need it.
    from agentjobs.store.migrate import migrate_postgresql, migrate_sqlite  # noqa: PLC0415

    if url.startswith(_SQLITE):
        await migrate_sqlite(_sqlite_path(url))
    else:
        await migrate_postgresql(url)


def _sqlite_path(url: str) -> Path:
    return Path(url.removeprefix(_SQLITE)).absolute()
