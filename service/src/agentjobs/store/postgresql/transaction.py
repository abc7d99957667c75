"""`tx` on PostgreSQL: its work may await only the statements of one connection."""

import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from agentjobs.store.database import Engine, Row, StoreError
from agentjobs.store.postgresql.connection import Connection, explain, is_standby_refusal
from agentjobs.store.postgresql.notifications import CHANNEL, Notifications
from agentjobs.store.postgresql.server_clock import ServerClock
from agentjobs.store.statements import render
from agentjobs.store.transactions import OpenTransaction, raise_foreign_await

T = TypeVar("T")

_READS = ("fetch", "fetchrow")


class _Connections(Protocol):
    """The database whose connections a transaction uses."""

    begin: str
    clock: ServerClock
    notifications: Notifications

    async def first_call(
        self, method: str, sql: str, values: Sequence[Any] = ()
    ) -> tuple[Connection, Any]: ...

    async def recent_connection(self) -> Connection | None: ...


class PostgresqlTransaction(OpenTransaction):
    """`tx` on PostgreSQL; `busy` while one of its statements is running.

    It begins with the first statement that is no plain read. Until then reads take the latest
    committed rows, as they do afterwards.
    """

    __slots__ = (
        "_database",
        "busy",
        "connection",
        "invalidated",
        "is_begun",
        "is_on_standby",
        "ran_last",
    )

    engine: Engine = "postgresql"

    def __init__(self, database: _Connections) -> None:
        super().__init__()
        self._database = database
        self.connection: Connection | None = None
        self.is_begun = False
        self.ran_last = False
        """Whether the last statement was sent, to be committed by itself."""
        self.busy = False
        self.is_on_standby = False
        self.invalidated: set[str] = set()

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        row: Row | None = await self._run("fetchrow", sql, parameters)
        return row

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        rows: list[Row] = await self._run("fetch", sql, parameters)
        return rows

    async def execute(self, sql: str, /, **parameters: Any) -> int:
        return _rows_changed(await self._run("execute", sql, parameters))

    async def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        await self._run("executemany", sql, rows)

    async def execute_last(self, sql: str, /, **parameters: Any) -> list[Row]:
        rows: list[Row] = await self._run("fetch", sql, parameters, is_last=True)
        self.complete()
        return rows

    async def clock_ms(self) -> int:
        return await self._database.clock.now_ms(self.fetch_one)

    async def invalidate(self, *topics: str) -> None:
        for payload in self._database.notifications.payloads(topics):
            await self.execute("SELECT pg_notify(:channel, :text)", channel=CHANNEL, text=payload)
        self.invalidated.update(topics)

    async def _run(
        self,
        method: str,
        sql: str,
        parameters: dict[str, Any] | Sequence[Mapping[str, Any]],
        *,
        is_last: bool = False,
    ) -> Any:
        if self.refusal is not None:
            self.check()
        self.busy = True
        try:
            statement = render("postgresql", sql)
            if isinstance(parameters, dict):
                values = statement.by_position(parameters)
            else:
                values = [[statement.by_position(row) for row in parameters]]
            if is_last and self.connection is None:
                self.connection = await self._database.recent_connection()
            # Another connection may be dead, and cannot tell what it committed.
            if is_last and self.connection is not None and not self.is_begun:
                self.ran_last = True
            elif not self.is_begun and not (statement.only_reads and method in _READS):
                await self._begin()
            if self.connection is None:
                return await self._first_call(method, statement.sql, values)
            return await getattr(self.connection, method)(statement.sql, *values)
        except BaseException as error:
            self.fail()
            self.is_on_standby = is_standby_refusal(error)
            if isinstance(error, Exception) and not isinstance(error, StoreError):
                is_lost = self.connection is not None and self.connection.is_closed()
                raise explain(error, is_lost) from error
            raise
        finally:
            self.busy = False

    async def _begin(self) -> None:
        begin = self._database.begin
        if self.connection is None:
            await self._first_call("execute", begin)
        else:
            await self.connection.execute(begin)
        self.is_begun = True

    async def _first_call(self, method: str, sql: str, values: Sequence[Any] = ()) -> Any:
        self.connection, result = await self._database.first_call(method, sql, values)
        return result


@types.coroutine
def run_guarded(
    tx: PostgresqlTransaction, coroutine: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    """Run the work, which may await only while one of its statements is running."""
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = step(value)
        except StopIteration as ended:
            result: T = ended.value
            return result
        if not tx.busy:
            tx.fail()
            raise_foreign_await(coroutine)
        try:
            value, step = (yield awaited), coroutine.send
        except BaseException as error:  # noqa: BLE001 - thrown into the work
            value, step = error, coroutine.throw


def _rows_changed(status: str) -> int:
    """From the command tag, such as `UPDATE 3`, `INSERT 0 1` or `CREATE TABLE`."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
