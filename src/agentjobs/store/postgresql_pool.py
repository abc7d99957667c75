"""A few PostgreSQL connections, handed out one at a time.

Smaller than asyncpg's own pool on purpose: that one spends a round trip and a task on every
return to reset a session, and no session here is ever left changed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.postgresql_connection import Connection, close

ACQUIRE_SECONDS = 10.0
LONGEST_USE_SECONDS = 30.0
"""Whoever has not got an answer by then gets none: the connection is cut."""
_STALE_SECONDS = 300.0
"""A firewall may have forgotten a connection that was silent for long."""


class Pool:
    """At most `most` connections, opened when first needed; the last one used is used next."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._most = most
        self._open = 0
        self._idle: list[tuple[Connection, float]] = []
        self._in_use: dict[Connection, asyncio.TimerHandle] = {}
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    async def acquire(self) -> Connection:
        connection = await self._take()
        # One timer for all statements of a transaction; asyncpg's own would be one for each.
        self._in_use[connection] = asyncio.get_running_loop().call_later(
            LONGEST_USE_SECONDS, connection.terminate
        )
        return connection

    async def _take(self) -> Connection:
        while True:
            if self._closed:
                raise StoreUnavailable("the database is closed")
            while self._idle:
                connection, since = self._idle.pop()
                if not connection.is_closed() and time.monotonic() - since < _STALE_SECONDS:
                    return connection
                self._forget(connection)
            if self._open < self._most:
                return await self._open_one()
            handed = await self._wait()
            if handed is not None:
                return handed

    def release(self, connection: Connection) -> None:
        """Give back a connection that is outside any transaction."""
        self._stop_timer(connection)
        if self._closed or connection.is_closed():
            self.discard(connection)
        elif not self._hand_over(connection):
            self._idle.append((connection, time.monotonic()))

    def discard(self, connection: Connection) -> None:
        """Give back a connection whose state is not known."""
        self._stop_timer(connection)
        self._forget(connection)
        self._hand_over(None)

    async def close(self, within_seconds: float) -> None:
        """Wait for what is under way, but not for ever."""
        self._closed = True
        while self._hand_over(None):
            pass
        give_up_at = time.monotonic() + within_seconds
        while self._idle:
            connection, _ = self._idle.pop()
            self._open -= 1
            await close(connection, max(give_up_at - time.monotonic(), 0.1))
        while self._open and (left := give_up_at - time.monotonic()) > 0:
            returned: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(returned)
            await asyncio.wait([returned], timeout=left)

    async def _open_one(self) -> Connection:
        self._open += 1
        try:
            return await self._connect()
        except BaseException:
            self._open -= 1
            self._hand_over(None)
            raise

    async def _wait(self) -> Connection | None:
        """A connection, or None when one may be opened in the place of another."""
        waiting: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):
                return await waiting
        except BaseException as error:
            self._stop_waiting(waiting)
            if isinstance(error, TimeoutError):
                raise StoreUnavailable(
                    f"all {self._most} connections to the database were busy "
                    f"for {ACQUIRE_SECONDS:g} s"
                ) from None
            raise

    def _stop_waiting(self, waiting: asyncio.Future[Connection | None]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        elif waiting.done() and not waiting.cancelled():
            # It was handed a connection in the very moment it gave up.
            connection = waiting.result()
            if connection is None:
                self._hand_over(None)
            else:
                self.release(connection)

    def _hand_over(self, connection: Connection | None) -> bool:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(connection)
                return True
        return False

    def _stop_timer(self, connection: Connection) -> None:
        timer = self._in_use.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _forget(self, connection: Connection) -> None:
        self._open -= 1
        connection.terminate()
