"""How long a platform's trouble is sat out, and at what pace it is asked again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from agentjobs.forges.http.responses import ApiError

LONGEST_BACKOFF_SECONDS = 60.0


def _say_nothing(_: str) -> None:
    pass


class RetryBudget:
    """How long trouble may be sat out in all, counted from the moment in which this is made.

    `say` is told before each wait. One for each piece of work: it runs out.
    """

    def __init__(
        self,
        seconds: float,
        say: Callable[[str], None] = _say_nothing,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.time_of_day = time_of_day
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._ends_at = clock() + seconds

    async def wait(self, trouble: str, attempt: int, asked_seconds: float = 0.0) -> bool:
        """False at once if what is left is too short; `attempt` counts from 0."""
        backoff = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(attempt, 10))
        # Those who met the trouble together shall not come back together.
        seconds = max(backoff, asked_seconds) + backoff * random.random() / 4  # noqa: S311 - a pace, no secret
        if self._clock() + seconds > self._ends_at:
            return False
        self._say(f"{trouble}; trying again in {round(seconds)} s")
        await self._sleep(seconds)
        return True

    async def wait_before_retry(self, error: ApiError, attempt: int) -> bool:
        """Whether to ask once more now, after the wait that this takes."""
        if not error.may_pass:
            return False
        return await self.wait(error.trouble, attempt, error.wait_seconds)
