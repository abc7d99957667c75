"""Measures how late the event loop runs, and logs what kept it busy."""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agentjobs_runtime.clock import seconds_to_tick

INTERVAL_SECONDS = 0.1
WARN_SECONDS = 0.1
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# One warning in this time: a busy machine would otherwise fill the log.
_WARNING_INTERVAL_SECONDS = 10.0
_SHOWN_FRAMES = 6

# Operators filter by this name.
_log = logging.getLogger("agentjobs.loop_monitor")


class LoopMonitor:
    """`counts` has a delay per bucket, and the last for longer ones. Read it on the loop's thread.

    A timer measures the delay. A thread notices a late timer while the loop is still busy, and
    records what the loop's thread is doing.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total_seconds = 0.0
        self._expected_at = 0.0
        self._warned_at = -_WARNING_INTERVAL_SECONDS
        self._stack = ""
        # Released when the monitor stops; cheaper to wait for than an Event.
        self._running = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Monitor the loop of this thread."""
        self._loop = asyncio.get_running_loop()
        self._schedule()
        thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="loop-monitor", daemon=True
        )
        self._running.acquire()
        thread.start()
        try:
            yield
        finally:
            self._running.release()
            self._timer.cancel()
            thread.join()

    def _schedule(self) -> None:
        seconds = seconds_to_tick(INTERVAL_SECONDS)
        self._expected_at = time.monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._measure)

    def _measure(self) -> None:
        now = time.monotonic()
        delay = max(0.0, now - self._expected_at)
        self.counts[bisect_left(BUCKETS, delay)] += 1
        self.total_seconds += delay
        if delay >= WARN_SECONDS and now - self._warned_at >= _WARNING_INTERVAL_SECONDS:
            self._warned_at = now
            where = self._stack or "unknown"
            _log.warning("the event loop was busy for %.0f ms, in %s", delay * 1_000, where)
        self._stack = ""
        self._schedule()

    def _watch(self, thread_id: int) -> None:
        while not self._running.acquire(
            timeout=max(self._late_at - time.monotonic(), WARN_SECONDS / 4)
        ):
            if time.monotonic() < self._late_at or self._stack:
                continue
            with contextlib.suppress(KeyError):
                self._stack = _describe(sys._current_frames()[thread_id])

    @property
    def _late_at(self) -> float:
        return self._expected_at + WARN_SECONDS / 2


def _describe(frame: FrameType) -> str:
    """The innermost functions, the current one first."""
    frames = traceback.StackSummary.extract(
        traceback.walk_stack(frame), limit=_SHOWN_FRAMES, lookup_lines=False
    )
    return " < ".join(
        f"{frame.name} ({frame.filename.rpartition('/')[2]}:{frame.lineno})" for frame in frames
    )
