"""Reads the gauges of many sandboxes in one thread and reports exceeded limits.

Knows neither what they measure nor how a sandbox is killed.
"""

import asyncio
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from agentjobs_runtime.protocol.shortage import is_shortage
from agentjobs_runtime.sandboxes.limits import UNMEASURED
from agentjobs_worker.sandbox.child import wait_despite_cancellation

log = logging.getLogger(__name__)

# Measurements begin at multiples of these intervals: the thread wakes up once for many gauges.
INTERVAL_SECONDS = 0.1
# After a measurement that found nothing new.
QUIET_INTERVAL_SECONDS = 0.5
# Measuring takes at most a tenth of the time, however many processes there are.
PAUSE_FACTOR = 10
# Consecutive failures: two seconds without a measurement.
MAX_FAILURES = 20
UNWATCHED = "the worker was able to watch"


class Gauge(Protocol):
    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened between the last two measurements."""

    def exceeded_limit(self) -> str | None:
        """Called in a thread. Return the limit that is exceeded as text, or None."""

    def stop(self) -> None:
        """A running measurement may end early."""

    def close(self) -> None: ...


class WatchThread:
    """Measures gauges one after another. The thread runs while there are any."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_running = False
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Watchdog]] = []
        self._counter = itertools.count()

    def add(self, watchdog: "Watchdog") -> None:
        """Raises RuntimeError if the machine has no thread for it now."""
        with self._changed:
            if not self._is_running:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._is_running = True
            self._push(watchdog, time.monotonic() + INTERVAL_SECONDS)
            self._changed.notify()

    def _run(self) -> None:
        while (watchdog := self._wait_for_next()) is not None:
            due_at = watchdog.measure()
            if due_at is not None:
                self._push(watchdog, due_at)

    def _wait_for_next(self) -> "Watchdog | None":
        with self._changed:
            while self._due:
                seconds = self._due[0][0] - time.monotonic()
                if seconds <= 0:
                    return heapq.heappop(self._due)[-1]
                self._changed.wait(seconds)
            self._is_running = False
            return None

    def _push(self, watchdog: "Watchdog", due_at: float) -> None:
        with self._changed:
            heapq.heappush(self._due, (due_at, next(self._counter), watchdog))


class Watchdog:
    """Reads one gauge until `stop`. Calls `on_exceeded` once, on the event loop."""

    def __init__(self, gauge: Gauge, on_exceeded: Callable[[str], None]) -> None:
        self._gauge = gauge
        self._on_exceeded = on_exceeded
        self._loop = asyncio.get_running_loop()
        self._measurement: Future[None] = Future()
        self._is_stopped = False
        self._failures = 0

    def measure(self) -> float | None:
        """Called in the thread. Returns when it is due again; None if it is not."""
        measurement = self._measurement
        if self._is_stopped or not measurement.set_running_or_notify_cancel():
            return None
        started_at = time.monotonic()
        exceeded = self._exceeded_limit()
        ended_at = time.monotonic()
        due_at = None
        if exceeded is not None:
            self._loop.call_soon_threadsafe(self._report, exceeded)
        else:
            due_at = self._next_due_at(ended_at, ended_at - started_at)
        self._measurement = Future()
        measurement.set_result(None)
        return due_at

    async def stop(self) -> None:
        """Wait for a running measurement; one that is only due is cancelled."""
        self._is_stopped = True
        self._gauge.stop()
        try:
            # The thread may replace it meanwhile.
            measurement = self._measurement
            if not measurement.cancel():
                await wait_despite_cancellation(asyncio.wrap_future(measurement))
        finally:
            self._gauge.close()

    def _next_due_at(self, now: float, duration_seconds: float) -> float:
        is_quiet = self._gauge.is_quiet and not self._failures
        interval = QUIET_INTERVAL_SECONDS if is_quiet else INTERVAL_SECONDS
        next_multiple = (now // interval + 1) * interval
        return max(next_multiple, now + duration_seconds * PAUSE_FACTOR)

    def _exceeded_limit(self) -> str | None:
        try:
            exceeded = self._gauge.exceeded_limit()
        except Exception as failure:  # noqa: BLE001 - other sandboxes must stay watched
            # Gauges may fail while the processes die.
            return None if self._is_stopped else self._on_failure(failure)
        self._failures = 0
        return exceeded

    def _on_failure(self, failure: Exception) -> str | None:
        """Descriptors may run out for a moment, but an agent that stays unwatched is killed."""
        self._failures += 1
        log.warning("a limit of a running agent could not be measured: %s", failure)
        if self._failures < MAX_FAILURES:
            return None
        return UNMEASURED if is_shortage(failure) else UNWATCHED

    def _report(self, exceeded: str) -> None:
        if not self._is_stopped:
            self._on_exceeded(exceeded)
