"""Shares slots and turns among organizations, so that none of them keeps the others waiting."""

import asyncio
import heapq
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class FairSlots:
    """At most `count` holders, and at most `per_organization` of one organization.

    A free slot goes to the waiting organization that has the fewest, then to the one that was
    served longest ago, as claims of jobs do. A slot that is held for `max_seconds` is given to
    others, too; its holder still counts for its organization.
    """

    def __init__(self, count: int, per_organization: int, max_seconds: float = math.inf) -> None:
        self._per_organization = per_organization
        self._max_seconds = max_seconds
        self._free = list(range(count))
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[int]]] = {}
        self._served_at: Counter[str] = Counter()

    @asynccontextmanager
    async def hold(self, organization_id: str) -> AsyncIterator[int]:
        """Wait for a slot. Its number is that of no other holder, until it is held too long."""
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(organization_id, deque()).append(granted)
        self._hand_out()
        returned = asyncio.Event()
        try:
            number = await granted
            if self._max_seconds < math.inf:
                granted.get_loop().call_later(self._max_seconds, self._return, number, returned)
            yield number
        finally:
            if not granted.cancelled():
                self._held[organization_id] -= 1
                self._return(granted.result(), returned)

    def _return(self, number: int, returned: asyncio.Event) -> None:
        if not returned.is_set():
            returned.set()
            heapq.heappush(self._free, number)
        self._hand_out()

    def count_waiting(self, organization_id: str) -> int:
        return len(self._waiting.get(organization_id, ()))

    def _hand_out(self) -> None:
        while self._free and (organization_id := self._next()) is not None:
            granted = self._waiting[organization_id].popleft()
            if not self._waiting[organization_id]:
                del self._waiting[organization_id]
            if not granted.cancelled():
                self._held[organization_id] += 1
                self._served_at[organization_id] = max(self._served_at.values(), default=0) + 1
                granted.set_result(heapq.heappop(self._free))

    def _next(self) -> str | None:
        below_limit = (
            organization_id
            for organization_id in self._waiting
            if self._held[organization_id] < self._per_organization
        )
        return min(below_limit, key=lambda it: (self._held[it], self._served_at[it]), default=None)


class Claimed(Protocol):
    @property
    def organization_id(self) -> str: ...


T = TypeVar("T", bound=Claimed)


class FairTurns:
    """For loops that claim the same kind of work from the store.

    They work for different organizations, each of which has its turn before one has another.
    """

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._served: set[str] = set()
        self._claiming = asyncio.Lock()

    @asynccontextmanager
    async def take(
        self, claim: Callable[[Collection[str]], Awaitable[T | None]]
    ) -> AsyncIterator[T | None]:
        """The result of `claim`, called with organizations to leave out; ends the turn at exit."""
        async with self._claiming:
            claimed = await claim(self._busy | self._served)
            if claimed is None and self._served:
                self._served.clear()
                claimed = await claim(self._busy)
            own = set() if claimed is None else {claimed.organization_id}
            self._busy |= own
            self._served |= own
        try:
            yield claimed
        finally:
            self._busy -= own
