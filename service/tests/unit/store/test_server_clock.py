"""The estimate of the PostgreSQL server's time between two readings."""

from typing import Any

import pytest

from agentjobs.store.postgresql import server_clock
from agentjobs.store.postgresql.server_clock import ServerClock

AHEAD_MS = 1_000_000


class Times:
    """The uptime of this machine, and a server whose clock runs beside it."""

    def __init__(self) -> None:
        self.uptime_ms = 10_000
        self.ahead_ms = AHEAD_MS
        self.request_ms = self.reply_ms = 0

    async def read(self, _: str) -> Any:
        self.uptime_ms += self.request_ms
        row = {"at_ms": self.uptime_ms + self.ahead_ms}
        self.uptime_ms += self.reply_ms
        return row


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    times = Times()
    monkeypatch.setattr(server_clock, "_uptime_ms", lambda: times.uptime_ms)
    return times


async def test_the_time_passes_between_two_readings(times: Times) -> None:
    clock = ServerClock()
    assert await clock.now_ms(times.read) == 10_000 + AHEAD_MS
    times.uptime_ms += 40
    times.ahead_ms += 7
    assert await clock.now_ms(times.read) == 10_040 + AHEAD_MS


async def test_a_slow_reply_does_not_set_the_clock_back(times: Times) -> None:
    clock = ServerClock()
    await clock.now_ms(times.read)
    times.uptime_ms += 5_000
    times.reply_ms = 30
    assert await clock.now_ms(times.read) == 15_030 + AHEAD_MS


async def test_a_quick_reply_corrects_what_a_slow_one_left_behind(times: Times) -> None:
    clock = ServerClock()
    times.reply_ms = 30
    assert await clock.now_ms(times.read) == 10_000 + AHEAD_MS
    times.uptime_ms += 5_000
    times.reply_ms = 0
    assert await clock.now_ms(times.read) == 15_030 + AHEAD_MS


@pytest.mark.parametrize("change_ms", [-90_000, 90_000])
async def test_a_clock_that_was_set_is_followed(times: Times, change_ms: int) -> None:
    clock = ServerClock()
    await clock.now_ms(times.read)
    times.uptime_ms += 5_000
    times.ahead_ms += change_ms
    times.request_ms = times.reply_ms = 20
    assert await clock.now_ms(times.read) == 15_020 + AHEAD_MS + change_ms
