"""Caches a document that the provider publishes."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from agentjobs_runtime.clock import SECOND_MS

MAX_AGE_MS = 3600 * SECOND_MS
MIN_REFRESH_INTERVAL_MS = 60 * SECOND_MS

T = TypeVar("T")


class CachedDocument(Generic[T]):
    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Callable[[], int]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._refreshed_at: int | None = None
        self._cached: tuple[int, T] | None = None

    async def value(self) -> T:
        if self._cached is not None and self._is_within(self._cached[0], MAX_AGE_MS):
            return self._cached[1]
        value = await self._fetch()
        self._cached = (self._clock(), value)
        return value

    async def refresh(self) -> T:
        """Fetches again, at most once a minute."""
        if not self._is_within(self._refreshed_at, MIN_REFRESH_INTERVAL_MS):
            self._refreshed_at = self._clock()
            self._cached = None
        return await self.value()

    def _is_within(self, since: int | None, milliseconds: int) -> bool:
        # Negative if the clock was set back.
        return since is not None and 0 <= self._clock() - since < milliseconds
