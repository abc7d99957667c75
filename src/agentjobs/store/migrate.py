"""Brings a database's schema up to date under a lock, so that two processes may start at once.

The only module that imports Alembic and SQLAlchemy, and it is imported only when there is work.
"""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path
from typing import cast

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from agentjobs.store.postgresql_connection import connect
from agentjobs.store.revisions import MIGRATIONS, known_revisions
from agentjobs.store.sqlite_connection import begin_patiently, connect_writer, translate

_ADVISORY_LOCK = 0x6167656E746A6F62
"""Any number of our own: it names the lock that migrating processes wait for."""


async def migrate_sqlite(path: Path) -> None:
    await asyncio.to_thread(_migrate_sqlite, path)


async def migrate_postgresql(url: str) -> None:
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=partial(connect, url), poolclass=NullPool
    )
    async with engine.connect() as connection:
        # Held by the session, beyond the commit; the end of the connection gives it back.
        await connection.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})")
        await connection.commit()
        async with connection.begin():
            await connection.run_sync(_upgrade)
    await engine.dispose()


def _migrate_sqlite(path: Path) -> None:
    engine = create_engine("sqlite://", creator=lambda: connect_writer(path), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            begin_patiently(cast("sqlite3.Connection", connection.connection.driver_connection))
            _upgrade(connection)
            connection.commit()
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection) -> None:
    """Another process may have done it while this one waited for the lock."""
    if MigrationContext.configure(connection).get_current_revision() == known_revisions()[-1]:
        return
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
