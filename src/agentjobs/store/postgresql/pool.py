"""A few PostgreSQL connections, each lent to one caller at a time.

asyncpg's own pool was measured against it: see docs/decisions/0001-sql-written-once.md.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.postgresql.connection import Connection, close

ACQUIRE_SECONDS = 10.0
MAX_USE_SECONDS = 30.0
"""A connection in use for longer is terminated."""
_STALE_SECONDS = 300.0
"""A firewall may have dropped a connection that was idle for longer."""


class Pool:
    """At most `max_size` connections, opened on demand; the last one released is used next."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], max_size: int) -> None:
        self._connect = connect
        self._max_size = max_size
        self._available = asyncio.Semaphore(max_size)
        self._idle: list[tuple[Connection, float]] = []
        self._timers: dict[Connection, asyncio.TimerHandle] = {}
        self._closed = False

    async def acquire(self) -> Connection:
        await self._reserve()
        try:
            connection = self._pop_idle() or await self._connect()
        except BaseException:
            self._available.release()
            raise
        # One timer for all statements of a transaction; asyncpg's own would be one for each.
        self._timers[connection] = asyncio.get_running_loop().call_later(
            MAX_USE_SECONDS, connection.terminate
        )
        return connection

    def release(self, connection: Connection) -> None:
        """Return a connection that is outside any transaction."""
        if self._closed or connection.is_closed():
            self.discard(connection)
            return
        self._timers.pop(connection).cancel()
        self._idle.append((connection, time.monotonic()))
        self._available.release()

    def discard(self, connection: Connection) -> None:
        """Return a connection whose state is unknown."""
        self._timers.pop(connection).cancel()
        connection.terminate()
        self._available.release()

    async def close(self, within_seconds: float) -> None:
        """Wait up to `within_seconds` for the connections in use."""
        self._closed = True
        give_up_at = time.monotonic() + within_seconds
        while self._idle:
            connection, _ = self._idle.pop()
            await close(connection, max(give_up_at - time.monotonic(), 0.1))
        with suppress(TimeoutError):
            async with asyncio.timeout(give_up_at - time.monotonic()):
                for _ in range(self._max_size):
                    await self._available.acquire()

    async def _reserve(self) -> None:
        self._refuse_when_closed()
        if self._available.locked():
            await self._wait()
        else:
            await self._available.acquire()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):
                await self._available.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"all {self._max_size} connections to the database were busy"
                f" for {ACQUIRE_SECONDS:g} s"
            ) from None
        if self._closed:
            self._available.release()
            self._refuse_when_closed()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the database is closed")

    def _pop_idle(self) -> Connection | None:
        while self._idle:
            connection, since = self._idle.pop()
            if not connection.is_closed() and time.monotonic() - since < _STALE_SECONDS:
                return connection
            connection.terminate()
        return None
