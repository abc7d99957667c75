"""Limits per API key, in the memory of this process: a token bucket for requests, and how many log
streams and long polls are open."""

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator

from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.exchange import RateLimit
from agentjobs_runtime.problems import Problem

# Clients that repeat refused requests in a loop would keep the process busy.
_REFUSAL_SECONDS = 0.25
_MAX_DELAYED_REFUSALS = 1_000
_RETRY_SECONDS = 5


class RateLimiter:
    """`per_second=0` disables it."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1)
        self._clock = clock
        # Per key that exists, the tokens left and the time of the last update.
        self._buckets: dict[str, tuple[float, float]] = {}
        self._delayed_refusals = 0

    async def admit(self, key_id: str) -> RateLimit | None:
        """Take a token for one request, or delay it and raise `rate_limited`."""
        try:
            return self.take(key_id)
        except Problem:
            if self._delayed_refusals < _MAX_DELAYED_REFUSALS:
                self._delayed_refusals += 1
                try:
                    await asyncio.sleep(_REFUSAL_SECONDS)
                finally:
                    self._delayed_refusals -= 1
            raise

    def take(self, key_id: str) -> RateLimit | None:
        """Take a token for one request; None if the limit is disabled.

        Raises `rate_limited` if the bucket is empty.
        """
        if self._per_second <= 0:
            return None
        now = self._clock()
        tokens = self._tokens(key_id, now)
        if tokens < 1:
            raise self._refusal(tokens)
        left = tokens - 1
        self._buckets[key_id] = (left, now)
        return self._burst, int(left), math.ceil((self._burst - left) / self._per_second)

    def _tokens(self, key_id: str, now: float) -> float:
        tokens, counted_at = self._buckets.get(key_id, (self._burst, now))
        return min(self._burst, tokens + (now - counted_at) * self._per_second)

    def _refusal(self, tokens: float) -> Problem:
        seconds = max(1, math.ceil((1 - tokens) / self._per_second))
        return HttpProblem(
            "rate_limited",
            f"This API key exceeds {self._per_second:g} requests per second; "
            f"retry after {seconds} s.",
            headers={
                "RateLimit-Limit": str(self._burst),
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": str(seconds),
            },
            retry_after_seconds=seconds,
        )


class OpenRequests:
    def __init__(self, max_per_key: int) -> None:
        self._max_per_key = max_per_key
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, key_id: str) -> Iterator[None]:
        """Raises `rate_limited` if the key has too many open requests."""
        if self._open[key_id] >= self._max_per_key:
            raise Problem(
                "rate_limited",
                f"This API key has {self._max_per_key} log streams and long polls open; "
                f"close some of them, or retry after {_RETRY_SECONDS} s.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._open[key_id] += 1
        try:
            yield
        finally:
            self._open[key_id] -= 1
            if not self._open[key_id]:
                del self._open[key_id]
