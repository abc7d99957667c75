"""Migrates and mends the schema under a lock, so that two processes can start concurrently.

On PostgreSQL no migration waits long for a table that others use: everybody else would have to
wait behind it. It gives up its place after `_LOCK_TIMEOUT_MS` and tries again.

The only module that imports Alembic and SQLAlchemy; it is imported only if a migration is due.
"""

import asyncio
import logging
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from agentjobs.store.database import Engine, StoreError, StoreUnavailable
from agentjobs.store.migrations.from_0_2 import convert
from agentjobs.store.postgresql.connection import connect, explain
from agentjobs.store.revisions import LAST_OF_0_2, MIGRATIONS, known_revisions
from agentjobs.store.schema import COLUMNS, INDEXES, build_schema, find_differences
from agentjobs.store.sqlite.connection import begin_with_retry, connect_writer, translate

_ADVISORY_LOCK = 0x6167656E746A6F62
"""An arbitrary number that identifies the lock."""
_ADVISORY_POLL_SECONDS = 0.1
_LOCK_TIMEOUT_MS = 3_000
_LOCK_ATTEMPTS = 20
_LOCK_PAUSE_SECONDS = 1.0
_LOCK_NOT_AVAILABLE = "55P03"
_PRIVILEGE_ERRORS = ("42501", "3F000")
"""Insufficient privilege; invalid schema name."""
_RETRY = "no migration is half applied; when the cause is removed, run `agentjobs migrate` again"
_ROLE = (
    "SELECT quote_ident(current_user) AS name, quote_ident(here) AS schema,"
    " coalesce(has_schema_privilege(to_regnamespace(quote_ident(here)), 'CREATE'), false)"
    " AS may_create FROM coalesce(current_schema(), 'public') AS here"
)

_log = logging.getLogger(__name__)


async def migrate_sqlite(path: Path) -> None:
    await asyncio.to_thread(_migrate_sqlite, path)


async def migrate_postgresql(url: str) -> None:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(connect, url, lock_timeout=f"{_LOCK_TIMEOUT_MS}"),
        poolclass=NullPool,
    )
    role: _Role | None = None
    try:
        async with engine.connect() as connection:
            await _lock_migrations(connection)
            role = await _current_role(connection)
            await connection.commit()
            await _upgrade_postgresql(connection)
    except DBAPIError as error:
        raise _translate_postgresql(error, role) from error
    finally:
        await engine.dispose()


async def _lock_migrations(connection: AsyncConnection) -> None:
    """Held by the session across commits until the connection ends.

    Polled, because creating an index waits for every running statement, this one included.
    """
    while True:
        lock = await connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({_ADVISORY_LOCK})")
        is_held = lock.scalar_one()
        await connection.commit()
        if is_held:
            return
        await asyncio.sleep(_ADVISORY_POLL_SECONDS)


async def _upgrade_postgresql(connection: AsyncConnection) -> None:
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            await connection.run_sync(_upgrade)
            await connection.run_sync(_mend)
            return
        except DBAPIError as error:
            if _sqlstate(_original(error)) != _LOCK_NOT_AVAILABLE:
                raise
            await connection.rollback()
        _log.warning("a migration waits for a table that is in use (attempt %d)", attempt)
        await asyncio.sleep(_LOCK_PAUSE_SECONDS)
    raise StoreUnavailable(
        "the database could not be migrated: a long transaction uses a table of agentjobs;"
        " end it, or run `agentjobs migrate` again later"
    )


class _Role(NamedTuple):
    """The database role and schema; the names are quoted for SQL."""

    name: str
    schema: str
    may_create: bool


async def _current_role(connection: AsyncConnection) -> _Role:
    row = (await connection.exec_driver_sql(_ROLE)).mappings().one()
    return _Role(**row)


def _translate_postgresql(error: DBAPIError, role: _Role | None) -> StoreError:
    original = _original(error)
    refused = _sqlstate(original) in _PRIVILEGE_ERRORS
    if refused and role is not None and not role.may_create:
        return StoreError(
            f"the role {role.name} must not create tables in this database;"
            f" an administrator can run: GRANT CREATE ON SCHEMA {role.schema} TO {role.name}"
        )
    return _with_advice(explain(original, error.connection_invalidated))


def _with_advice(error: StoreError) -> StoreError:
    error.add_note(_RETRY)
    return error


def _original(error: DBAPIError) -> BaseException:
    """SQLAlchemy wraps the driver's exception twice."""
    original: BaseException = getattr(error.orig, "__cause__", None) or error.orig or error
    return original


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None)


def _migrate_sqlite(path: Path) -> None:
    engine = create_engine("sqlite://", creator=lambda: connect_writer(path), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            begin_with_retry(cast("sqlite3.Connection", connection.connection.driver_connection))
            _upgrade(connection)
            _mend(connection)
            connection.commit()
    except DBAPIError as error:
        original = error.orig if isinstance(error.orig, Exception) else error
        raise _with_advice(translate(original, path)) from error
    except sqlite3.Error as error:
        raise _with_advice(translate(error, path)) from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection) -> None:
    """Another process may have migrated while this one waited for the lock."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision >= known_revisions()[-1]:
        return
    if connection.dialect.name == "postgresql":
        # Ends the transaction of the read, so that each migration begins its own.
        connection.commit()
    steps = _LoggedSteps(revision)
    if revision == LAST_OF_0_2:
        convert(connection)
        if connection.dialect.name == "postgresql":
            connection.commit()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["on_version_apply"] = steps.applied
    command.upgrade(config, "head")
    steps.finished()


def _mend(connection: Connection) -> None:
    """Add what the schema should have but lacks, for example after an edited migration."""
    engine: Engine = "postgresql" if connection.dialect.name == "postgresql" else "sqlite"
    revision = MigrationContext.configure(connection).get_current_revision()
    columns = connection.exec_driver_sql(COLUMNS[engine]).mappings().all()
    indexes = connection.exec_driver_sql(INDEXES[engine]).mappings().all()
    is_newer = revision is not None and revision > known_revisions()[-1]
    actual = build_schema(columns, indexes)
    differences = list(find_differences(engine, actual, is_newer=is_newer))
    if any(difference.is_lost for difference in differences):
        # Indexes of a missing table cannot be added. Whoever opens the database names the table.
        return
    if engine == "postgresql":
        connection.commit()
        # Indexes are created concurrently, which is not possible inside a transaction.
        connection.execution_options(isolation_level="AUTOCOMMIT")
    for difference in differences:
        for statement in difference.mending:
            if "CONCURRENTLY" in statement:
                # It blocks no other statement while it waits.
                connection.exec_driver_sql("SET lock_timeout = 0")
            connection.exec_driver_sql(statement)
        if difference.mending:
            _log.warning("%s: added it", difference.what)


class _LoggedSteps:
    """Logs each migration when it is applied, with its duration."""

    def __init__(self, revision: str | None) -> None:
        self._started_at = self._step_started_at = time.monotonic()
        start = f"from schema {revision}" if revision else "an empty database"
        _log.info("migrating %s to schema %s", start, known_revisions()[-1])

    def applied(self, *, step: MigrationInfo, **_: Any) -> None:
        now = time.monotonic()
        seconds, self._step_started_at = now - self._step_started_at, now
        _log.info("applied migration %s in %.2f s", step.up_revision_id, seconds)

    def finished(self) -> None:
        seconds = time.monotonic() - self._started_at
        _log.info("migrated to schema %s in %.2f s", known_revisions()[-1], seconds)
