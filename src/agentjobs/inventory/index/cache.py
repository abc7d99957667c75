"""A cache of blob analyses and index states on this host's disk, shared by all repositories.

A damaged or oversized file is deleted and recreated; errors never reach the caller.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from agentjobs.inventory.index.analysis import BlobAnalysis

MAX_BYTES = 1024**3
_KEYS_AT_ONCE = 500
_BUSY_SECONDS = 10
# The version of the schema below; a file with another version is deleted.
_SCHEMA_VERSION = 1
# Not WITHOUT ROWID: looking up a key would read the large values stored next to it.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key BLOB PRIMARY KEY, facts BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS states (repo_id TEXT PRIMARY KEY, summary BLOB NOT NULL,
    paths BLOB NOT NULL, graph BLOB NOT NULL);
"""


class AnalysisCache:
    """A key is the blob's id followed by the analyzer's key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._decode = msgspec.msgpack.Decoder(BlobAnalysis).decode
        self._encode = msgspec.msgpack.Encoder().encode
        with self._suppress_errors():
            self._connection = self._open()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, BlobAnalysis]:
        """The cached analyses among `keys`."""
        analyses: dict[bytes, BlobAnalysis] = {}
        with self._suppress_errors():
            # Looking up many keys in an empty table would take time for nothing.
            remaining = iter(keys if self._has_rows() else ())
            while self._connection and (batch := list(islice(remaining, _KEYS_AT_ONCE))):
                placeholders = ",".join("?" * len(batch))
                rows = self._connection.execute(
                    f"SELECT key, facts FROM facts WHERE key IN ({placeholders})",
                    batch,
                )
                for key, data in rows:
                    analyses[key] = self._decode(data)
        return analyses

    def _has_rows(self) -> bool:
        if self._connection is None:
            return False
        return self._connection.execute("SELECT 1 FROM facts LIMIT 1").fetchone() is not None

    def put(self, analyses: Mapping[bytes, BlobAnalysis]) -> None:
        with self._suppress_errors():
            if self._connection is None:
                return
            rows = [(key, self._encode(analyses[key])) for key in sorted(analyses)]
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def get_state(self, repo_id: str) -> tuple[bytes, bytes, bytes] | None:
        """The state that the last index of the repository saved."""
        row: tuple[bytes, bytes, bytes] | None = None
        with self._suppress_errors():
            if self._connection is not None:
                row = self._connection.execute(
                    "SELECT summary, paths, graph FROM states WHERE repo_id = ?", (repo_id,)
                ).fetchone()
        return row

    def put_state(self, repo_id: str, summary: bytes, paths: bytes, graph: bytes) -> None:
        with self._suppress_errors():
            if self._connection is not None:
                with self._connection:
                    self._connection.execute(
                        "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)",
                        (repo_id, summary, paths, graph),
                    )

    def repo_ids(self) -> set[str]:
        """The repositories that have a state."""
        rows: list[tuple[str]] = []
        with self._suppress_errors():
            if self._connection is not None:
                rows = self._connection.execute("SELECT repo_id FROM states").fetchall()
        return {repo_id for (repo_id,) in rows}

    def delete_state(self, repo_id: str) -> None:
        with self._suppress_errors():
            if self._connection is not None:
                with self._connection:
                    self._connection.execute("DELETE FROM states WHERE repo_id = ?", (repo_id,))

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
            self._delete_file()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            _create_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _suppress_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, OSError) as error:
            self.close()
            # A full disk or a held lock does not mean that the file is damaged.
            if not isinstance(error, (sqlite3.OperationalError, OSError)):
                self._delete_file()

    def _delete_file(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()


def _create_schema(connection: sqlite3.Connection) -> None:
    """Raises DatabaseError if the file has another schema version."""
    # In one transaction: another process may be creating the file.
    connection.execute("BEGIN")
    is_new = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("COMMIT")
    if is_new:
        script = f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {_SCHEMA_VERSION};COMMIT;"
        connection.executescript(script)
    elif version != _SCHEMA_VERSION:
        raise sqlite3.DatabaseError("unsupported schema version")
