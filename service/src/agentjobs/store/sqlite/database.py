"""The store on one SQLite file: one writer, point reads on the loop, scans in a thread pool."""

import asyncio
import functools
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from agentjobs.store.changes import Changes
from agentjobs.store.contact import Contact
from agentjobs.store.database import Engine, Row, StoreUnavailable, Transaction
from agentjobs.store.sqlite.connection import (
    BUSY_SECONDS,
    FAULTS,
    connect_reader,
    connect_writer,
    execute,
    first_row,
    is_busy,
    translate,
)
from agentjobs.store.sqlite.writer import SqliteWriter
from agentjobs.store.transactions import forbid_inside_transaction
from agentjobs_runtime.clock import now_ms

P = ParamSpec("P")
T = TypeVar("T")

_SCAN_THREADS = 4


class SqliteDatabase:
    """One file, one writer, any number of readers."""

    engine: Engine = "sqlite"

    def __init__(
        self, path: Path, writing: sqlite3.Connection, reading: sqlite3.Connection
    ) -> None:
        self.changes = Changes()
        self.contact = Contact()
        self.groups: dict[Any, Any] = {}
        self._path = path
        self._reading = reading
        self._writer = SqliteWriter(writing, path, self.changes)
        self._scans = _Scans(path)
        self._closed = False

    @classmethod
    async def open(cls, path: Path) -> Self:
        writing = await asyncio.to_thread(connect_writer, path)
        try:
            # A point read must not block the event loop: if it had to wait, a scan thread does.
            reading = connect_reader(path, busy_seconds=0)
        except BaseException:
            writing.close()
            raise
        return cls(path, writing, reading)

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        forbid_inside_transaction()
        self._check_open()
        if args or kwargs:
            future = self._writer.submit(lambda tx: work(tx, *args, **kwargs))
        else:
            future = self._writer.submit(work)
        result: T = await future
        return result

    async def transact_large(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        forbid_inside_transaction()
        self._check_open()
        future = self._writer.submit(lambda tx: work(tx, *args, **kwargs), is_large=True)
        result: T = await future
        return result

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        forbid_inside_transaction()
        self._check_open()
        try:
            return first_row(execute(self._reading, sql, parameters))
        except FAULTS as error:
            if not is_busy(error):
                raise translate(error, self._path) from error
        rows = await self.fetch_all(sql, **parameters)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        forbid_inside_transaction()
        self._check_open()
        return await self._scans.fetch_all(sql, parameters)

    async def clock_ms(self) -> int:
        forbid_inside_transaction()
        return now_ms()

    async def ping(self) -> None:
        # A deleted file keeps working until the process ends, and then its data is lost.
        if not self._path.exists():
            raise StoreUnavailable(f"the database {self._path} was deleted or moved")
        # Unlike `SELECT 1`, this reads the file.
        await self.fetch_one("SELECT count(*) FROM sqlite_master")

    async def check_writable(self) -> None:
        # In a thread, because the writer does not notice that this waits for the disk.
        await self.transact_large(_rewrite_header)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._scans.close)
        self._reading.close()
        await self._writer.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the database is closed")


async def _rewrite_header(tx: Transaction) -> None:
    row = await tx.fetch_one("PRAGMA user_version")
    assert row is not None
    await tx.execute(f"PRAGMA user_version = {row['user_version']}")


class _Scans:
    """Runs reads that may take long in a few threads, each with its own connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(_SCAN_THREADS, thread_name_prefix="sqlite-scan")
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def fetch_all(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, functools.partial(self._fetch_all, sql, parameters)
        )

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _fetch_all(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        try:
            rows: list[Row] = execute(self._connection(), sql, parameters).fetchall()
        except FAULTS as error:
            raise translate(error, self._path) from error
        return rows

    def _connection(self) -> sqlite3.Connection:
        try:
            own: sqlite3.Connection = self._own.connection
        except AttributeError:
            own = self._own.connection = connect_reader(self._path, BUSY_SECONDS)
            self._connections.append(own)
        return own
