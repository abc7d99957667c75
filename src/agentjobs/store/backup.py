"""Copies the database into a directory while the service is running.

Knows nothing about repositories.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from agentjobs.store.database import StoreError
from agentjobs.store.postgresql.address import split_password
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
    address, password = split_password(url)
    environ = {**os.environ, "PGPASSWORD": password} if password else dict(os.environ)
    command = [_pg_dump(), "--format=custom", "--no-password", f"--file={target}"]
    process = subprocess.run(
        [*command, f"--dbname={address}"], env=environ, capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        exit_message = f"pg_dump exited with status {process.returncode}"
        reason = process.stderr.strip().splitlines() or [exit_message]
        raise StoreError(f"the database could not be dumped: {reason[0]}")
    target.chmod(0o600)


def _pg_dump() -> str:
    """The newest installed version: pg_dump must not be older than the server."""
    installed = Path("/usr/lib/postgresql").glob("*/bin/pg_dump")
    newest = max(installed, key=_version, default=None)
    program = str(newest) if newest else shutil.which("pg_dump")
    if program is None:
        raise StoreError("pg_dump is not installed; run: sudo apt-get install -y postgresql-client")
    return program


def _version(program: Path) -> int:
    text = program.parent.parent.name.partition(".")[0]
    return int(text) if text.isdecimal() else 0
