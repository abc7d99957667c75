"""A SQLite database as other programs of the machine meet it: a file that can be locked and read.

Knows no table, so that tests that use it know none either.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the only write lock, as a backup or a long transaction does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.rollback()


def dump(path: Path) -> str:
    """Everything that is stored, as statements; bytes are in hexadecimal."""
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return "\n".join(connection.iterdump())


def delete_rows(path: Path) -> None:
    """Deletes what migrations and first starts store, and keeps the schema."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            if name != "alembic_version":
                connection.execute(f'DELETE FROM "{name}"')
        connection.commit()
