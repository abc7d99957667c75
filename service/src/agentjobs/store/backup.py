"""Copies the database into a directory while the service is running.

Knows nothing about repositories.
"""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.programs import connection_arguments, find_program
from agentjobs.store.sqlite.connection import connect_reader, translate

SQLITE_COPY = "agentjobs.db"
POSTGRESQL_COPY = "postgresql.dump"

_SQLITE = "sqlite:///"


def require_database_file(url: str) -> None:
    """Opening a database creates a missing file, which a backup must not do."""
    path = Path(url.removeprefix(_SQLITE))
    if url.startswith(_SQLITE) and not path.is_file():
        raise StoreError(f"there is no database at {path}; pass the service's --data-dir")


def copy_database(url: str, directory: Path) -> None:
    if url.startswith(_SQLITE):
        _copy_sqlite(Path(url.removeprefix(_SQLITE)), directory / SQLITE_COPY)
    else:
        _dump_postgresql(url, directory / POSTGRESQL_COPY)


def _copy_sqlite(source: Path, target: Path) -> None:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(connect_reader(source, 5.0)) as reader, closing(sqlite3.connect(target)) as copy:
        try:
            reader.backup(copy)
            # The copy is a single file without a write-ahead log.
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise translate(error, source) from None


def _dump_postgresql(url: str, target: Path) -> None:
    arguments, environ = connection_arguments(url)
    command = [find_program("pg_dump"), "--format=custom", f"--file={target}", *arguments]
    process = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        exit_message = f"pg_dump exited with status {process.returncode}"
        reason = process.stderr.strip().splitlines() or [exit_message]
        raise StoreError(f"the database could not be dumped: {reason[0]}")
    target.chmod(0o600)
