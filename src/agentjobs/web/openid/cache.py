"""Something a provider publishes, asked for once in a while. Knows nothing of what it is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from agentjobs.clock import SECOND_MS
from agentjobs.problems import Problem

KEPT_MS = 3600 * SECOND_MS
RENEWED_AFTER_MS = 60 * SECOND_MS
# So that a crowd at the door does not wait for a dead provider one after the other.
FAILURE_KEPT_MS = 5 * SECOND_MS

T = TypeVar("T")


class Remembered(Generic[T]):
    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Callable[[], int]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._renewed_at: int | None = None
        self._value: tuple[int, T] | None = None
        self._failure: tuple[int, Problem] | None = None

    async def value(self) -> T:
        async with self._lock:
            return await self._kept_or_fetched()

    async def renewed(self) -> T:
        """Fetched again, but for this reason at most once a minute."""
        async with self._lock:
            if not self._is_within(self._renewed_at, RENEWED_AFTER_MS):
                self._renewed_at = self._clock()
                self._value = None
            return await self._kept_or_fetched()

    async def _kept_or_fetched(self) -> T:
        if self._value is not None and self._is_within(self._value[0], KEPT_MS):
            return self._value[1]
        if self._failure is not None and self._is_within(self._failure[0], FAILURE_KEPT_MS):
            raise _again(self._failure[1])
        return await self._fetched()

    async def _fetched(self) -> T:
        try:
            value = await self._fetch()
        except Problem as problem:
            self._failure = (self._clock(), problem)
            raise
        self._value = (self._clock(), value)
        return value

    def _is_within(self, since: int | None, milliseconds: int) -> bool:
        # Not below zero either: the clock may have been set back.
        return since is not None and 0 <= self._clock() - since < milliseconds


def _again(problem: Problem) -> Problem:
    return Problem(problem.code, problem.message, retry_after_seconds=problem.retry_after_seconds)
