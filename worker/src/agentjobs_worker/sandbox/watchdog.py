"""Reads the gauges of one sandbox several times a second and reports an exceeded limit.

Knows neither what they measure nor how a sandbox is killed.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

from agentjobs_runtime.protocol.shortage import is_shortage
from agentjobs_runtime.sandboxes.limits import UNMEASURED
from agentjobs_worker.sandbox.child import wait_despite_cancellation

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.1
# Measuring takes at most a tenth of the time, however many processes there are.
PAUSE_FACTOR = 10
# Consecutive failures: two seconds without a measurement.
MAX_FAILURES = 20
UNWATCHED = "the worker was able to watch"


class Gauge(Protocol):
    def exceeded_limit(self) -> str | None:
        """Called in a thread. Return the limit that is exceeded as text, or None."""

    def stop(self) -> None:
        """A running measurement may end early."""

    def close(self) -> None: ...


class Watchdog:
    """Reads one gauge until `stop`. Calls `on_exceeded` once, on the event loop."""

    def __init__(
        self, gauge: Gauge, executor: Executor, on_exceeded: Callable[[str], None]
    ) -> None:
        self._gauge = gauge
        self._executor = executor
        self._on_exceeded = on_exceeded
        self._loop = asyncio.get_running_loop()
        self._submitted: Future[str | None] | None = None
        self._measuring: asyncio.Future[str | None] | None = None
        self._is_stopped = False
        self._duration_seconds = 0.0
        self._failures = 0
        self._schedule(INTERVAL_SECONDS)

    async def stop(self) -> None:
        self._is_stopped = True
        self._next.cancel()
        self._gauge.stop()
        try:
            await self._finish_measuring()
        finally:
            self._gauge.close()

    async def _finish_measuring(self) -> None:
        """Wait for a running measurement; one that is still queued is cancelled."""
        if self._submitted is None or self._measuring is None:
            return
        if not self._submitted.cancel():
            await wait_despite_cancellation(self._measuring)

    def _schedule(self, seconds: float) -> None:
        self._next = self._loop.call_later(seconds, self._measure)

    def _measure(self) -> None:
        try:
            self._submitted = self._executor.submit(self._timed_measure)
        except RuntimeError as error:
            # The machine has no thread for it now. Unwatched, the agent would have no limits.
            self._on_failure(error)
            return
        self._measuring = asyncio.wrap_future(self._submitted, loop=self._loop)
        self._measuring.add_done_callback(self._on_measured)

    def _timed_measure(self) -> str | None:
        # Excludes the time in the executor's queue.
        started_at = time.monotonic()
        try:
            return self._gauge.exceeded_limit()
        finally:
            self._duration_seconds = time.monotonic() - started_at

    def _on_measured(self, measuring: asyncio.Future[str | None]) -> None:
        if measuring.cancelled():
            return
        failure = measuring.exception()
        # Gauges may fail while the processes die.
        if self._is_stopped:
            return
        if failure is not None:
            self._on_failure(failure)
        elif (exceeded := measuring.result()) is not None:
            self._on_exceeded(exceeded)
        else:
            self._failures = 0
            self._schedule(max(INTERVAL_SECONDS, self._duration_seconds * PAUSE_FACTOR))

    def _on_failure(self, failure: BaseException) -> None:
        """Descriptors may run out for a moment, but an agent that stays unwatched is killed."""
        self._failures += 1
        log.warning("a limit of a running agent could not be measured: %s", failure)
        if self._failures < MAX_FAILURES:
            self._schedule(INTERVAL_SECONDS)
        else:
            self._on_exceeded(UNMEASURED if is_shortage(failure) else UNWATCHED)
