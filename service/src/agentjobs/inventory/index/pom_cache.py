"""A cache on this host's disk of published poms: parents and BOMs from a registry.

A damaged or oversized file is deleted and recreated; errors never reach the caller.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from agentjobs_dependencies import formats
from agentjobs_dependencies.model import ParsedManifest

MAX_BYTES = 1024**3
_BUSY_SECONDS = 10
_SCHEMA = "CREATE TABLE IF NOT EXISTS poms (key TEXT PRIMARY KEY, pom BLOB NOT NULL)"


class PomCache:
    """`registry` is the address of the registry, without credentials."""

    def __init__(self, path: Path, registry: str) -> None:
        self._path = path
        self._registry = registry

    def load(self, coordinate: str) -> ParsedManifest | None:
        pom: ParsedManifest | None = None
        with self._suppress_errors(), closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT pom FROM poms WHERE key = ?", (self._key(coordinate),)
            ).fetchone()
            if row is not None:
                pom = msgspec.msgpack.decode(row[0], type=ParsedManifest)
        return pom

    def store(self, poms: Mapping[str, ParsedManifest]) -> None:
        rows = [(self._key(name), msgspec.msgpack.encode(pom)) for name, pom in poms.items()]
        with self._suppress_errors(), closing(self._connect()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO poms VALUES (?, ?)", rows)

    def _key(self, coordinate: str) -> str:
        """Poms of other registries and readers are not found."""
        return f"{formats.VERSION} {self._registry} {coordinate}"

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
            self._path.unlink()
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _suppress_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError):
            # A full disk or a held lock does not mean that the file is damaged.
            return
        except (sqlite3.Error, msgspec.MsgspecError):
            with contextlib.suppress(OSError):
                self._path.unlink()
