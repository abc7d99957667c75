"""How long and how often requests to a platform are retried."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from agentjobs.platforms.http.responses import ApiError

MAX_BACKOFF_SECONDS = 60.0


def _ignore(_: str) -> None:
    pass


class RetryBudget:
    """The time for retries of one operation, counted from creation.

    `report` is called with a message before each wait. `is_poll`: nobody waits for the operation,
    so it leaves a share of the platform's rate limit to others.
    """

    def __init__(
        self,
        seconds: float,
        report: Callable[[str], None] = _ignore,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_poll: bool = False,
    ) -> None:
        self.time_of_day = time_of_day
        self.is_poll = is_poll
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._ends_at = clock() + seconds

    async def wait(self, summary: str, attempt: int, requested_seconds: float = 0.0) -> bool:
        """False without waiting if the remaining time is too short; `attempt` counts from 0."""
        backoff = min(MAX_BACKOFF_SECONDS, 2.0 ** min(attempt, 10))
        # Jitter, so that clients that failed together do not retry together.
        seconds = max(backoff, requested_seconds) + backoff * random.random() / 4  # noqa: S311 - jitter, not a secret
        if self._clock() + seconds > self._ends_at:
            return False
        await self.pause(summary, seconds)
        return True

    async def pause(self, summary: str, seconds: float) -> None:
        """Wait even if no time remains: for a few short waits."""
        self._report(f"{summary}; trying again in {round(seconds)} s")
        await self._sleep(seconds)

    async def wait_before_retry(self, error: ApiError, attempt: int) -> bool:
        """Wait if the error is temporary; True if the request should be retried now."""
        if not error.is_temporary:
            return False
        return await self.wait(error.summary, attempt, error.retry_after_seconds)
