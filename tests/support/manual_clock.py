"""A clock that advances only by sleeping, for tests of retries that wait for minutes."""

from collections.abc import Callable

from agentjobs.platforms.http.client import RetryBudget


class ManualClock:
    """`messages` are logged before each wait; `waits` are the durations in seconds."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.messages: list[str] = []
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def retry_budget(
        self, seconds: float = 600.0, time_of_day: Callable[[], float] | None = None
    ) -> RetryBudget:
        """`time_of_day` is for tests whose server uses the real time."""
        return RetryBudget(
            seconds,
            self.messages.append,
            clock=self,
            time_of_day=time_of_day or self,
            sleep=self.sleep,
        )
