"""A few PostgreSQL connections, each lent to one caller at a time.

asyncpg's own pool was measured against it: see docs/decisions/0001-sql-written-once.md.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.postgresql.connection import Connection, close

ACQUIRE_SECONDS = 10.0
MAX_USE_SECONDS = 30.0
"""A connection in use for longer is terminated."""
MAX_IDLE_SECONDS = 10.0
"""A connection that was idle for longer is closed."""

_RECENT_SECONDS = 1.0


class Pool:
    """At most `max_size` connections, opened on demand; the last one released is used next.

    While others are in use, a caller waits `grow_after` seconds for one of them before it opens
    another.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        max_size: int,
        grow_after: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._max_size = max_size
        self._grow_after = grow_after
        self._available = asyncio.Semaphore(max_size)
        self._reserved = 0
        self._idle: deque[tuple[Connection, float]] = deque()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._timers: dict[Connection, asyncio.TimerHandle] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def acquire(self) -> Connection:
        await self._reserve()
        try:
            connection = self._pop_idle() or await self._wait_for_release() or await self._connect()
        except BaseException:
            self._unreserve()
            raise
        # One timer for all statements of a transaction; asyncpg's own would be one for each.
        self._timers[connection] = asyncio.get_running_loop().call_later(
            MAX_USE_SECONDS, connection.terminate
        )
        return connection

    async def acquire_recent(self) -> Connection | None:
        """A connection that was in use a moment ago, so that it is hardly dead, if one is idle."""
        is_recent = self._idle and time.monotonic() - self._idle[-1][1] < _RECENT_SECONDS
        return await self.acquire() if is_recent and not self._available.locked() else None

    def release(self, connection: Connection) -> None:
        """Return a connection that is outside any transaction."""
        if self._closed or connection.is_closed():
            self.discard(connection)
            return
        self._timers.pop(connection).cancel()
        self._keep(connection)
        self._unreserve()

    def discard(self, connection: Connection) -> None:
        """Return a connection whose state is unknown."""
        self._timers.pop(connection).cancel()
        connection.terminate()
        self._unreserve()

    async def close(self, within_seconds: float) -> None:
        """Wait up to `within_seconds` for the connections in use."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
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
        self._reserved += 1

    def _unreserve(self) -> None:
        self._reserved -= 1
        self._available.release()

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
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _wait_for_release(self) -> Connection | None:
        """A connection that was released in time, None otherwise."""
        is_alone = self._reserved == 1
        if is_alone:
            return None
        released = asyncio.get_running_loop().create_future()
        self._waiting.append(released)
        try:
            await asyncio.wait({released}, timeout=self._grow_after())
        except BaseException:
            if released.done():
                self._keep(released.result())
            raise
        finally:
            if released in self._waiting:
                self._waiting.remove(released)
        return released.result() if released.done() else None

    def _keep(self, connection: Connection) -> None:
        if self._closed:
            connection.terminate()
            return
        if self._waiting:
            self._waiting.popleft().set_result(connection)
            return
        self._idle.append((connection, time.monotonic()))
        if self._idle_timer is None:
            self._schedule_closing(MAX_IDLE_SECONDS)

    def _schedule_closing(self, after_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(after_seconds, self._close_unused)

    def _close_unused(self) -> None:
        """The connection that was idle for the longest time is the first one."""
        self._idle_timer = None
        expired_at = time.monotonic() - MAX_IDLE_SECONDS
        while self._idle and self._idle[0][1] <= expired_at:
            self._idle.popleft()[0].terminate()
        if self._idle:
            self._schedule_closing(max(self._idle[0][1] - expired_at, 0.01))
