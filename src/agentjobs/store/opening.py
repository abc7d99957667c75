"""From a database address to an open database with the right schema."""

from pathlib import Path

from agentjobs.store.database import Database, MigrationsBehind, StoreError
from agentjobs.store.revisions import is_behind, schema_is_current
from agentjobs.store.sqlite.database import SqliteDatabase

__all__ = ["open_as_it_is", "open_database", "schema_is_current"]

_SQLITE = "sqlite:///"


async def open_database(url: str, *, migrate: bool) -> Database:
    """Open it; a schema that is behind is migrated or, without `migrate`, refused."""
    db = await open_as_it_is(url)
    try:
        if await is_behind(db):
            if not migrate:
                raise MigrationsBehind(
                    "the database has an older schema than this program: run `agentjobs migrate`"
                )
            await _migrate(url)
    except BaseException:
        await db.close()
        raise
    return db


async def open_as_it_is(url: str) -> Database:
    """Open it without a look at its schema."""
    if url.startswith(_SQLITE):
        return await SqliteDatabase.open(_sqlite_path(url))
    if url.startswith(("postgresql://", "postgres://")):
        # asyncpg takes longer to import than the rest of the store: SQLite's users do without.
        from agentjobs.store.postgresql.database import PostgresqlDatabase  # noqa: PLC0415

        return await PostgresqlDatabase.open(url)
    raise StoreError("a database address starts with sqlite:/// or postgresql://")


async def _migrate(url: str) -> None:
    # Alembic takes most of a second to import: only who is behind pays for it.
    from agentjobs.store.migrate import migrate_postgresql, migrate_sqlite  # noqa: PLC0415

    if url.startswith(_SQLITE):
        await migrate_sqlite(_sqlite_path(url))
    else:
        await migrate_postgresql(url)


def _sqlite_path(url: str) -> Path:
    return Path(url.removeprefix(_SQLITE)).absolute()
