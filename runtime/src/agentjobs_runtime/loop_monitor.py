"""Measures how late the event loop runs."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from agentjobs_runtime.clock import seconds_to_tick

INTERVAL_SECONDS = 0.1
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopMonitor:
    """`counts` has a delay per bucket, and the last for longer ones. Read it on the loop's thread.

    A timer measures the delay.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total_seconds = 0.0
        self._expected_at = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Monitor the loop of this thread."""
        self._schedule()
        try:
            yield
        finally:
            self._timer.cancel()

    def _schedule(self) -> None:
        seconds = seconds_to_tick(INTERVAL_SECONDS)
        self._expected_at = time.monotonic() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._measure)

    def _measure(self) -> None:
        delay = max(0.0, time.monotonic() - self._expected_at)
        self.counts[bisect_left(BUCKETS, delay)] += 1
        self.total_seconds += delay
        self._schedule()
