"""Opens a database by its URL and ensures that its schema is current."""

import logging
from pathlib import Path

from agentjobs.store.database import Database, SchemaDamaged, SchemaTooOld, StoreError
from agentjobs.store.revisions import (
    current_revision,
    is_behind,
    is_of_0_2,
    known_revisions,
    newer_revision,
    schema_is_supported,
)
from agentjobs.store.schema import Difference, compare_schema, expected_schema, read_schema
from agentjobs.store.sqlite.database import SqliteDatabase

__all__ = [
    "DEFAULT_POOL_SIZE",
    "find_schema_differences",
    "open_database",
    "open_unchecked",
    "schema_is_supported",
]

DEFAULT_POOL_SIZE = 10
_SQLITE = "sqlite:///"
_BEFORE_CONVERSION = "stop all processes of the service, make a backup with agentjobs 0.2.0, and "

_log = logging.getLogger(__name__)


async def open_database(
    url: str,
    *,
    migrate: bool,
    convert: bool = False,
    create: bool = False,
    direct_url: str = "",
    pool_size: int = DEFAULT_POOL_SIZE,
    generic_plans: bool = False,
) -> Database:
    """Open the database. With `migrate`, an old schema is migrated and missing columns and indexes
    are added, otherwise both are refused. With `create`, only an empty database gets the schema.
    Only `convert` migrates a database of 0.2.0, because no process may use it meanwhile.

    `direct_url` bypasses the connection pooler that `url` leads to. `generic_plans` is for
    processes that only run short statements, in which the parameters do not change the plan.
    """
    db = await open_unchecked(
        url, direct_url=direct_url, pool_size=pool_size, generic_plans=generic_plans
    )
    try:
        if await is_behind(db):
            revision = await current_revision(db)
            if revision is None:
                if not (migrate or create):
                    raise SchemaTooOld(_too_old("is empty"))
                await _require_empty(db)
            elif is_of_0_2(revision) and not convert:
                raise SchemaTooOld(_too_old("has the schema of agentjobs 0.2", _BEFORE_CONVERSION))
            elif not migrate:
                raise SchemaTooOld(_too_old(f"has schema {revision}"))
            await _migrate(direct_url or url)
        elif newer := await newer_revision(db):
            _log.info(
                "the database has schema %s, which only adds to %s, the schema of this version",
                newer,
                known_revisions()[-1],
            )
        await _ensure_complete(db, direct_url or url, mend=migrate)
    except BaseException:
        await db.close()
        raise
    return db


async def open_unchecked(
    url: str,
    *,
    listen: bool = True,
    direct_url: str = "",
    pool_size: int = DEFAULT_POOL_SIZE,
    generic_plans: bool = False,
) -> Database:
    """Open the database without checking its schema.

    Without `listen`, no connection waits for changes of other processes, and `changes` is not live.
    """
    if url.startswith(_SQLITE):
        return await SqliteDatabase.open(_sqlite_path(url))
    if url.startswith(("postgresql://", "postgres://")):
        # asyncpg takes longer to import than the rest of the store, and SQLite does not need it.
        from agentjobs.store.postgresql.database import PostgresqlDatabase  # noqa: PLC0415

        return await PostgresqlDatabase.open(
            url,
            listen=listen,
            direct_url=direct_url,
            pool_size=pool_size,
            generic_plans=generic_plans,
        )
    raise StoreError("a database URL must start with sqlite:/// or postgresql://")


async def _require_empty(db: Database) -> None:
    """Migrations would start again from the first one."""
    known = expected_schema(db.engine).tables
    table = next((name for name in (await read_schema(db)).tables if name in known), None)
    # Another process may have created the schema since.
    if table is not None and await current_revision(db) is None:
        raise SchemaDamaged(
            f"the database is damaged: it has the table {table}, but no revision of its schema;"
            " restore a backup, or use an empty database"
        )


async def find_schema_differences(db: Database) -> list[Difference]:
    """What a database that was opened lacks, or has in another form."""
    return await compare_schema(db, is_newer=await newer_revision(db) is not None)


async def _ensure_complete(db: Database, url: str, *, mend: bool) -> None:
    differences = await find_schema_differences(db)
    if mend and any(difference.mending for difference in differences):
        await _migrate(url)
        differences = await find_schema_differences(db)
    if fatal := [difference for difference in differences if difference.fatal]:
        raise SchemaDamaged(_describe(fatal))
    for difference in differences:
        _log.warning("the database: %s; %s", difference.what, difference.remedy)


def _describe(fatal: list[Difference]) -> str:
    lost = [difference for difference in fatal if difference.is_lost]
    shown = (lost or fatal)[0]
    others = f" (and {len(fatal) - 1} more)" if fatal[1:] else ""
    return f"the database is damaged: {shown.what}{others}; {shown.remedy}"


def _too_old(state: str, before: str = "") -> str:
    return (
        f"the database {state}, but this program needs schema {known_revisions()[-1]};"
        f" {before}run `agentjobs migrate`"
    )


async def _migrate(url: str) -> None:
    # Alembic takes most of a second to import, and most starts do not need it.
    from agentjobs.store.migrate import migrate_postgresql, migrate_sqlite  # noqa: PLC0415

    if url.startswith(_SQLITE):
        await migrate_sqlite(_sqlite_path(url))
    else:
        await migrate_postgresql(url)


def _sqlite_path(url: str) -> Path:
    return Path(url.removeprefix(_SQLITE)).absolute()
