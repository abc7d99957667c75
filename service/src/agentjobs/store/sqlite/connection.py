"""Opens SQLite connections and translates their errors."""

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentjobs.store.database import IntegrityError, Row, StoreError, StoreFull, StoreUnavailable
from agentjobs.store.statements import render
from agentjobs_runtime.free_space import describe_full, explain_write_failure

BUSY_SECONDS = 5.0
_LOCK_RETRY_SECONDS = 0.002
"""Shorter than SQLite's own: a busy writer leaves only small gaps for another process."""
_CACHED_STATEMENTS = 512
_CHECKPOINT_PAGES = 4_000
"""A journal of 16 MB. Commits change the same pages again and again, and the database file gets
only their last version, so that fewer checkpoints write less."""

_WRITER_CACHE_KIB = 16_000
"""Eight times SQLite's default. Every organization has pages of its own in the indexes of jobs."""

FAULTS = (sqlite3.Error, ValueError, OverflowError, StoreError)
"""What running a statement may raise; `translate` maps each to a StoreError."""

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked by another connection",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the directory and its permissions",
    sqlite3.SQLITE_READONLY: "it cannot be written; check its owner",
    sqlite3.SQLITE_PERM: "the permissions do not allow it",
    sqlite3.SQLITE_AUTH: "the permissions do not allow it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; restore a backup, or move it away",
}

_OF_THE_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""Also what a file system that is full or read-only leads to."""


def connect_writer(path: Path) -> sqlite3.Connection:
    """The only connection that writes. Creates a missing file, readable only by its owner."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Never open an existing database here: closing the descriptor would drop the locks that
        # other connections of this process hold. Another process that exits would then remove
        # the journal while it is in use.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        reason = explain_write_failure(path.parent) or error.strerror
        raise StoreUnavailable(f"the database {path} cannot be opened: {reason}") from None
    # The event loop must not wait for locks; `begin_with_retry` waits in a thread.
    connection = _connect(path, busy_seconds=0)
    try:
        # SQLite's own timeout does not apply when two processes do this concurrently.
        _execute_with_retry(connection, "PRAGMA journal_mode = WAL")
        # With FULL, commits survive a power failure, not only the end of the process.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
        connection.execute("PRAGMA foreign_keys = ON")
        # Otherwise savepoints keep their undo pages in a temporary file.
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from None
    return connection


def begin_with_retry(connection: sqlite3.Connection) -> None:
    _execute_with_retry(connection, "BEGIN IMMEDIATE")


def connect_reader(path: Path, busy_seconds: float) -> sqlite3.Connection:
    connection = _connect(path, busy_seconds)
    try:
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from None
    return connection


def execute(
    connection: sqlite3.Connection, sql: str, parameters: Mapping[str, Any]
) -> sqlite3.Cursor:
    statement = render("sqlite", sql)
    return connection.execute(statement.sql, statement.by_position(parameters))


def execute_many(
    connection: sqlite3.Connection, sql: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    statement = render("sqlite", sql)
    connection.executemany(statement.sql, map(statement.by_position, rows))


def first_row(cursor: sqlite3.Cursor) -> Row | None:
    row: Row | None = cursor.fetchone()
    # If there are more rows, an open statement would keep its snapshot and block commits.
    cursor.close()
    return row


def is_busy(error: Exception) -> bool:
    return _primary_code(error) == sqlite3.SQLITE_BUSY


def translate(error: Exception, path: Path) -> StoreError:
    """The store's exception for an sqlite3 error."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, sqlite3.IntegrityError):
        return IntegrityError(str(error))
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"the database {path} cannot be used: {describe_full(path.parent)}")
    reason = _UNAVAILABLE.get(code)
    if code in _OF_THE_DISK:
        reason = explain_write_failure(path.parent) or reason
    if reason is not None:
        return StoreUnavailable(f"the database {path} cannot be used: {reason}")
    return StoreError(f"the database refused a statement: {error}")


def _connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            path,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        raise translate(error, path) from None
    connection.row_factory = sqlite3.Row
    return connection


def _execute_with_retry(connection: sqlite3.Connection, statement: str) -> None:
    give_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() > give_up_at:
                raise
        time.sleep(_LOCK_RETRY_SECONDS)


def _primary_code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
