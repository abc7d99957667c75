"""The store on PostgreSQL: pooled connections, and transactions that begin and end on them."""

import functools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import asyncpg

from agentjobs.store.changes import EVERYTHING, Changes
from agentjobs.store.contact import Contact
from agentjobs.store.database import Engine, Row, StoreError, StoreFull, Transaction
from agentjobs.store.postgresql.connection import (
    IDLE_IN_TRANSACTION_MS,
    Connection,
    connect,
    is_connection_lost,
    is_standby_refusal,
    translate,
)
from agentjobs.store.postgresql.notifications import Notifications
from agentjobs.store.postgresql.pool import ACQUIRE_SECONDS, Pool
from agentjobs.store.postgresql.server_clock import ServerClock
from agentjobs.store.postgresql.transaction import PostgresqlTransaction, run_guarded
from agentjobs.store.statements import render
from agentjobs.store.transactions import current, forbid_inside_transaction

P = ParamSpec("P")
T = TypeVar("T")

_GROW_SECONDS = 0.01
_MAX_WAITS_PER_SECOND = 8
"""A pool opens another connection only if the others are busy for this long, or callers had to wait
this often: loops that wake at the same time can share a connection, requests under load cannot."""
_SMALL_POOL = 2
_SMALL_POOL_GROW_SECONDS = 0.05
_MAX_GROW_SECONDS = 0.3
"""In a large fleet: there, a slow server has many connections already."""
_CLOSE_SECONDS = 5.0
_ROLLBACK_SECONDS = 5.0
_BEGIN = "BEGIN READ WRITE"
_BEGIN_THROUGH_POOLER = (
    f"{_BEGIN}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS}"
)
# Written to the journal, and ignored by everybody.
_EMPTY_CHANGE = "SELECT pg_logical_emit_message(true, 'agentjobs', '')"
_FULL_SECONDS = 10.0
"""While a table cannot grow, small changes may still be possible."""


class PostgresqlDatabase:
    """One PostgreSQL database, shared with any number of processes."""

    engine: Engine = "postgresql"

    def __init__(
        self, url: str, *, direct_url: str, pool_size: int, generic_plans: bool = False
    ) -> None:
        """With a `direct_url`, `url` leads to a pooler that cannot do everything."""
        session: Mapping[str, Any] = (
            {"plan_cache_mode": "force_generic_plan"} if generic_plans else {}
        )
        self.changes = Changes()
        self.contact = Contact()
        self.groups: dict[Any, Any] = {}
        self.clock = ServerClock()
        self._last_full: tuple[float, StoreFull] | None = None
        open_direct = functools.partial(connect, direct_url or url, **session)
        open_pooled = functools.partial(connect, url, through_pooler=True)
        self.begin = _BEGIN_THROUGH_POOLER if direct_url else _BEGIN
        self._pool_size = pool_size
        self._waited_at: deque[float] = deque(maxlen=_MAX_WAITS_PER_SECOND)
        self._pool = Pool(open_pooled if direct_url else open_direct, pool_size, self._grow_after)
        self.notifications = Notifications(open_direct, self.changes)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        listen: bool = True,
        direct_url: str = "",
        pool_size: int = 10,
        generic_plans: bool = False,
    ) -> Self:
        """With `generic_plans`, each connection plans a statement once. By default PostgreSQL
        plans most of ours on every call, because it estimates arrays of unknown length as long."""
        db = cls(url, direct_url=direct_url, pool_size=pool_size, generic_plans=generic_plans)
        if listen:
            await db.notifications.start()
        return db

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        forbid_inside_transaction()
        tx = PostgresqlTransaction(self)
        outer = current.set(tx)
        try:
            result = await run_guarded(tx, work(tx, *args, **kwargs))
            tx.check_result()
        except BaseException as error:
            if isinstance(error, StoreFull):
                self._last_full = (time.monotonic(), error)
            await self._roll_back(tx)
            raise
        finally:
            tx.end()
            current.reset(outer)
        await self._commit(tx)
        return result

    # Here a statement of any size only waits for the server.
    transact_large = transact

    async def fetch_one(self, sql: str, /, **parameters: Any) -> Row | None:
        row: Row | None = await self._read("fetchrow", sql, parameters)
        return row

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        rows: list[Row] = await self._read("fetch", sql, parameters)
        return rows

    async def clock_ms(self) -> int:
        forbid_inside_transaction()
        return await self.clock.now_ms(self.fetch_one)

    async def ping(self) -> None:
        await self.fetch_one("SELECT 1 AS alive")

    async def check_writable(self) -> None:
        if self._last_full and time.monotonic() - self._last_full[0] < _FULL_SECONDS:
            raise StoreFull(str(self._last_full[1]))
        await self.transact(_write_nothing)

    async def close(self) -> None:
        await self._pool.close(_CLOSE_SECONDS)
        await self.notifications.close()

    def _grow_after(self) -> float:
        if self._pool_size > _SMALL_POOL:
            self._waited_at.append(now := time.monotonic())
            is_busy = len(self._waited_at) == _MAX_WAITS_PER_SECOND and now - self._waited_at[0] < 1
            return 0.0 if is_busy else _GROW_SECONDS
        return self.changes.poll_seconds(_SMALL_POOL_GROW_SECONDS, _MAX_GROW_SECONDS)

    async def _read(self, method: str, sql: str, parameters: dict[str, Any]) -> Any:
        forbid_inside_transaction()
        statement = render("postgresql", sql)
        if not statement.only_reads:
            # As on SQLite. Besides, the first call may be repeated.
            raise StoreError("only a transaction may write")
        values = statement.by_position(parameters)
        connection, result = await self.first_call(method, statement.sql, values)
        self._pool.release(connection)
        return result

    async def first_call(
        self, method: str, sql: str, values: Sequence[Any] = ()
    ) -> tuple[Connection, Any]:
        """A connection may have died while idle: then another one repeats its first call.

        The caller releases the connection.
        """
        # All pooled connections may have died; the next one is new.
        tries_left = self._pool_size + 1
        give_up_at = time.monotonic() + ACQUIRE_SECONDS
        while True:
            connection = await self._pool.acquire()
            tries_left -= 1
            try:
                return connection, await getattr(connection, method)(sql, *values)
            except Exception as error:
                died = connection.is_closed() or is_connection_lost(error)
                is_usable = isinstance(error, asyncpg.PostgresError) and not is_standby_refusal(
                    error
                )
                if is_usable and not died:
                    self._pool.release(connection)
                else:
                    self._pool.discard(connection)
                if not died or not tries_left or time.monotonic() > give_up_at:
                    raise translate(error, connection) from error
            except BaseException:
                self._pool.discard(connection)
                raise

    async def recent_connection(self) -> Connection | None:
        return await self._pool.acquire_recent()

    async def _roll_back(self, tx: PostgresqlTransaction) -> None:
        if tx.ran_last:
            # It may have been committed; an unnecessary wake-up does no harm.
            tx.topics.add(EVERYTHING)
            self._publish(tx)
        connection = tx.connection
        if connection is None:
            return
        try:
            if tx.is_begun:
                await connection.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)
        except BaseException as error:
            self._pool.discard(connection)
            if not isinstance(error, Exception):
                raise
        else:
            # A failed statement may have left a connection that is not in a transaction unusable.
            is_usable = not tx.is_on_standby and (tx.is_begun or tx.refusal is None)
            (self._pool.release if is_usable else self._pool.discard)(connection)

    async def _commit(self, tx: PostgresqlTransaction) -> None:
        connection = tx.connection
        if connection is None:
            self._publish(tx)
            return
        try:
            if tx.is_begun:
                await connection.execute("COMMIT")
        except BaseException as error:
            self._pool.discard(connection)
            if isinstance(error, Exception):
                raise translate(error, connection) from error
            raise
        else:
            self._pool.release(connection)
        finally:
            # An unconfirmed commit may have succeeded; an unnecessary wake-up does no harm.
            self._publish(tx)

    def _publish(self, tx: PostgresqlTransaction) -> None:
        if tx.topics:
            self.notifications.notify(tx.topics)
        if tx.topics or tx.invalidated:
            self.changes.publish(*(tx.topics | tx.invalidated))


async def _write_nothing(tx: Transaction) -> None:
    await tx.execute(_EMPTY_CHANGE)
