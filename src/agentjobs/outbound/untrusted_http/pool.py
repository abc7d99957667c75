"""Connections between two requests: kept for a few seconds, for those they were made for.

Knows neither how one is made nor what is said over it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable

from agentjobs.outbound.untrusted_http.connection import StrangerConnection

# Servers commonly close after 5 seconds, and a request on its way just then would be lost.
KEEPALIVE_SECONDS = 4
MOST_IDLE = 512
_SWEEP_SECONDS = 1


class IdleConnections:
    """The longest unused are closed first, the last used are used first."""

    def __init__(self) -> None:
        self._of: dict[Hashable, deque[StrangerConnection]] = {}
        # All of them with the time since when they are here, in that order.
        self._since: OrderedDict[StrangerConnection, tuple[Hashable, float]] = OrderedDict()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self, owner: Hashable) -> StrangerConnection | None:
        """One over which a request may go now."""
        while mine := self._of.get(owner):
            connection = mine.pop()
            if not mine:
                del self._of[owner]
            _, since = self._since.pop(connection)
            if since > self._oldest() and connection.is_free and connection.is_silent():
                return connection
            connection.abort()
        return None

    def put(self, owner: Hashable, connection: StrangerConnection) -> None:
        """One that is of no more use is closed."""
        if self._is_closed or not connection.is_free:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._of.setdefault(owner, deque()).append(connection)
        self._since[connection] = (owner, loop.time())
        if len(self._since) > MOST_IDLE:
            self._drop_oldest()
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(_SWEEP_SECONDS, self._sweep)

    async def close(self) -> None:
        """Also what is put back later will be closed."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        dropped = list(self._since)
        while self._since:
            self._drop_oldest()
        for connection in dropped:
            await connection.until_gone()

    def _oldest(self) -> float:
        return asyncio.get_running_loop().time() - KEEPALIVE_SECONDS

    def _sweep(self) -> None:
        oldest = self._oldest()
        while self._since and next(iter(self._since.values()))[1] <= oldest:
            self._drop_oldest()
        self._sweep_timer = (
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
            if self._since
            else None
        )

    def _drop_oldest(self) -> None:
        connection, (owner, _) = self._since.popitem(last=False)
        # What is oldest of all is oldest of its owner's.
        mine = self._of[owner]
        mine.popleft()
        if not mine:
            del self._of[owner]
        connection.abort()
