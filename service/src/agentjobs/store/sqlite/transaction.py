"""`tx` on SQLite: statements run synchronously, so its coroutines never suspend."""

import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentjobs.store.database import Engine, Row
from agentjobs.store.sqlite.connection import FAULTS, execute, execute_many, first_row, translate
from agentjobs.store.transactions import OpenTransaction, raise_foreign_await
from agentjobs_runtime.clock import now_ms

T = TypeVar("T")


class SqliteTransaction(OpenTransaction):
    """The statements of one transaction. The writer begins and commits it."""

    __slots__ = ("_connection", "_path")

    engine: Engine = "sqlite"

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._path = path

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        return self._run(first_row, sql, parameters)

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        return self._run(sqlite3.Cursor.fetchall, sql, parameters)

    async def execute(self, sql: str, /, **parameters: Any) -> int:
        return self._run(_rows_changed, sql, parameters)

    async def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        if self.refusal is not None:
            self.check()
        try:
            execute_many(self._connection, sql, rows)
        except FAULTS as error:
            self.fail()
            raise translate(error, self._path) from error

    async def execute_last(self, sql: str, /, **parameters: Any) -> list[Row]:
        rows = await self.fetch_all(sql, **parameters)
        self.complete()
        return rows

    async def clock_ms(self) -> int:
        self.check()
        return now_ms()

    async def invalidate(self, *topics: str) -> None:
        # Other processes detect the commit by `data_version`.
        self.announce(*topics)

    def _run(
        self, outcome: Callable[[sqlite3.Cursor], T], sql: str, parameters: Mapping[str, Any]
    ) -> T:
        if self.refusal is not None:
            self.check()
        try:
            return outcome(execute(self._connection, sql, parameters))
        except FAULTS as error:
            self.fail()
            raise translate(error, self._path) from error


def run_to_completion(coroutine: Coroutine[Any, Any, T]) -> T:
    """A coroutine that awaits only an SqliteTransaction completes with the first `send`."""
    try:
        coroutine.send(None)
        raise_foreign_await(coroutine)
    except StopIteration as ended:
        result: T = ended.value
        return result


def _rows_changed(cursor: sqlite3.Cursor) -> int:
    return max(cursor.rowcount, 0)
