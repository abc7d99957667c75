"""Facts of blobs on this host's disk, shared by all repositories.

Only a cache: what is broken or too large is thrown away and made anew, and no error gets out.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from agentjobs.inventory.index.analysis import BlobFacts

MAX_BYTES = 1024**3
_KEYS_AT_ONCE = 500
_BUSY_SECONDS = 10
# Of the tables below; a file of another number is thrown away.
_LAYOUT = 1
# With row numbers: else whoever looks for a key reads all of the large facts it lies beside.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key BLOB PRIMARY KEY, facts BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS states (repo_id TEXT PRIMARY KEY, summary BLOB NOT NULL,
    paths BLOB NOT NULL, graph BLOB NOT NULL);
"""


class FactsCache:
    """A key is a blob's name with its analyzer's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._decode = msgspec.msgpack.Decoder(BlobFacts).decode
        self._encode = msgspec.msgpack.Encoder().encode
        with self._forgiving():
            self._connection = self._opened()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, BlobFacts]:
        """Those that are known."""
        found: dict[bytes, BlobFacts] = {}
        with self._forgiving():
            # A new file has nothing; to ask it for each of many keys takes its time.
            waiting = iter(keys if self._has_facts() else ())
            while self._connection and (some := list(islice(waiting, _KEYS_AT_ONCE))):
                marks = ",".join("?" * len(some))
                rows = self._connection.execute(
                    f"SELECT key, facts FROM facts WHERE key IN ({marks})",
                    some,
                )
                for key, facts in rows:
                    found[key] = self._decode(facts)
        return found

    def _has_facts(self) -> bool:
        if self._connection is None:
            return False
        return self._connection.execute("SELECT 1 FROM facts LIMIT 1").fetchone() is not None

    def put(self, facts: Mapping[bytes, BlobFacts]) -> None:
        with self._forgiving():
            if self._connection is None:
                return
            rows = [(key, self._encode(facts[key])) for key in sorted(facts)]
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def get_state(self, repo_id: str) -> tuple[bytes, bytes, bytes] | None:
        """What the last index of a repository left for the next one."""
        row: tuple[bytes, bytes, bytes] | None = None
        with self._forgiving():
            if self._connection is not None:
                row = self._connection.execute(
                    "SELECT summary, paths, graph FROM states WHERE repo_id = ?", (repo_id,)
                ).fetchone()
        return row

    def put_state(self, repo_id: str, summary: bytes, paths: bytes, graph: bytes) -> None:
        with self._forgiving():
            if self._connection is not None:
                with self._connection:
                    self._connection.execute(
                        "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)",
                        (repo_id, summary, paths, graph),
                    )

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
            self._throw_away()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            _lay_out(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, OSError) as error:
            self.close()
            # A disk that is full or a lock that is held is no fault of the file's.
            if not isinstance(error, (sqlite3.OperationalError, OSError)):
                self._throw_away()

    def _throw_away(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()


def _lay_out(connection: sqlite3.Connection) -> None:
    """Raises DatabaseError for the file of another version of us."""
    # As of one moment: another process may be making the file.
    connection.execute("BEGIN")
    is_new = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("COMMIT")
    if is_new:
        making = f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {_LAYOUT};COMMIT;"
        connection.executescript(making)
    elif layout != _LAYOUT:
        raise sqlite3.DatabaseError("a file of another layout")
