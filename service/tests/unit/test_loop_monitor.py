"""The delay of the event loop is measured, and a long one names its cause."""

import asyncio
import logging
import time

import pytest

from agentjobs_runtime.loop_monitor import BUCKETS, INTERVAL_SECONDS, LoopMonitor
from tests.support.git_server import until


def occupy_the_loop(seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at:
        pass


async def test_a_busy_loop_is_measured_and_named(caplog: pytest.LogCaptureFixture) -> None:
    monitor = LoopMonitor()
    with caplog.at_level(logging.WARNING), monitor.running():
        await asyncio.sleep(INTERVAL_SECONDS / 2)
        occupy_the_loop(0.6)
        await until(lambda: caplog.messages)
        occupy_the_loop(0.3)
        await until(lambda: sum(monitor.counts[BUCKETS.index(0.1) + 1 :]) >= 2)
    [message] = caplog.messages
    assert "the event loop was busy for" in message
    assert "occupy_the_loop (test_loop_monitor.py:" in message
    assert monitor.total_seconds > 0.4
