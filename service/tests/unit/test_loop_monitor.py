"""The delay of the event loop is measured."""

import asyncio
import time

from agentjobs_runtime.loop_monitor import BUCKETS, INTERVAL_SECONDS, LoopMonitor
from tests.support.git_server import until


def occupy_the_loop(seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at:
        pass


async def test_a_busy_loop_is_measured() -> None:
    monitor = LoopMonitor()
    with monitor.running():
        await asyncio.sleep(INTERVAL_SECONDS / 2)
        occupy_the_loop(0.6)
        await until(lambda: monitor.total_seconds)
        occupy_the_loop(0.3)
        await until(lambda: sum(monitor.counts[BUCKETS.index(0.1) + 1 :]) >= 2)
    assert monitor.total_seconds > 0.4
