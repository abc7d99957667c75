"""Time that passes only when somebody sleeps, for what waits minutes between two attempts."""

from collections.abc import Callable

from agentjobs.forges.http.client import RetryBudget


class HandClock:
    """`said` is what was told before each wait, `slept` how long each was."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.said: list[str] = []
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retry_budget(
        self, seconds: float = 600.0, time_of_day: Callable[[], float] | None = None
    ) -> RetryBudget:
        """`time_of_day`: where a server looks at it too, and does not know of our sleep."""
        return RetryBudget(
            seconds,
            self.said.append,
            clock=self,
            time_of_day=time_of_day or self,
            sleep=self.sleep,
        )
