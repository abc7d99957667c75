"""The delay of the event loop is measured."""

import time

from agentjobs_runtime.loop_monitor import BUCKETS, LoopMonitor
from tests.support.git_server import until


def occupy_the_loop(seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at:
        pass


async def test_a_busy_loop_is_measured() -> None:
    monitor = LoopMonitor()

    def long_delays() -> int:
        return sum(monitor.counts[BUCKETS.index(0.1) + 1 :])

    with monitor.running():
        occupy_the_loop(0.6)
        await until(lambda: long_delays() >= 1)
        occupy_the_loop(0.3)
        await until(lambda: long_delays() >= 2)
    assert monitor.total_seconds > 0.4
