"""Caches a document that the provider publishes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.problems import Problem

MAX_AGE_MS = 3600 * SECOND_MS
MIN_REFRESH_INTERVAL_MS = 60 * SECOND_MS
# Concurrent sign-ins must not each wait for the timeout of an unavailable provider.
FAILURE_MAX_AGE_MS = 5 * SECOND_MS

T = TypeVar("T")


class CachedDocument(Generic[T]):
    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Callable[[], int]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._refreshed_at: int | None = None
        self._value: tuple[int, T] | None = None
        self._failure: tuple[int, Problem] | None = None

    async def value(self) -> T:
        async with self._lock:
            return await self._cached_or_fetch()

    async def refresh(self) -> T:
        """Fetches again, at most once a minute."""
        async with self._lock:
            if not self._is_within(self._refreshed_at, MIN_REFRESH_INTERVAL_MS):
                self._refreshed_at = self._clock()
                self._value = None
            return await self._cached_or_fetch()

    async def _cached_or_fetch(self) -> T:
        if self._value is not None and self._is_within(self._value[0], MAX_AGE_MS):
            return self._value[1]
        if self._failure is not None and self._is_within(self._failure[0], FAILURE_MAX_AGE_MS):
            raise _copy(self._failure[1])
        return await self._fetch_and_cache()

    async def _fetch_and_cache(self) -> T:
        try:
            value = await self._fetch()
        except Problem as problem:
            self._failure = (self._clock(), problem)
            raise
        self._value = (self._clock(), value)
        return value

    def _is_within(self, since: int | None, milliseconds: int) -> bool:
        # Negative if the clock was set back.
        return since is not None and 0 <= self._clock() - since < milliseconds


def _copy(problem: Problem) -> Problem:
    return Problem(problem.code, problem.message, retry_after_seconds=problem.retry_after_seconds)
