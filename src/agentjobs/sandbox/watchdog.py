"""Looks at the gauges of one sandbox several times a second and says when a limit is passed.

Knows nothing of what they measure, nor of how a sandbox is ended.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

from agentjobs.sandbox.child import outlast

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.1
# Of the time, at most the tenth is spent looking, however many processes there are.
REST_PER_LOOK = 10
# In a row: two seconds in which nothing could be seen.
MOST_FAILURES = 20
UNWATCHED = "the worker was able to watch"


class Gauge(Protocol):
    def look(self) -> str | None:
        """Called in a thread. The limit that is passed, in words."""

    def stop(self) -> None:
        """A look under way may as well end now."""

    def close(self) -> None: ...


class Watchdog:
    """One gauge, watched until `stop`. `bark` is called once, on the event loop."""

    def __init__(self, gauge: Gauge, executor: Executor, bark: Callable[[str], None]) -> None:
        self._gauge = gauge
        self._executor = executor
        self._bark = bark
        self._loop = asyncio.get_running_loop()
        self._queued: Future[str | None] | None = None
        self._looking: asyncio.Future[str | None] | None = None
        self._is_stopped = False
        self._took = 0.0
        self._failures = 0
        self._rest(INTERVAL_SECONDS)

    async def stop(self) -> None:
        self._is_stopped = True
        self._next.cancel()
        self._gauge.stop()
        try:
            await self._looked_last()
        finally:
            self._gauge.close()

    async def _looked_last(self) -> None:
        """A look that waits for those at other sandboxes is not made any more."""
        if self._queued is None or self._looking is None:
            return
        if not self._queued.cancel():
            await outlast(self._looking)

    def _rest(self, seconds: float) -> None:
        self._next = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._queued = self._executor.submit(self._timed_look)
        self._looking = asyncio.wrap_future(self._queued, loop=self._loop)
        self._looking.add_done_callback(self._looked)

    def _timed_look(self) -> str | None:
        # From here: how long it had to wait for its turn is not its own doing.
        began = time.monotonic()
        try:
            return self._gauge.look()
        finally:
            self._took = time.monotonic() - began

    def _looked(self, looking: asyncio.Future[str | None]) -> None:
        if looking.cancelled():
            return
        failure = looking.exception()
        # A gauge that fails while everything is dying has nothing to say.
        if self._is_stopped:
            return
        if failure is not None:
            self._failed(failure)
        elif (exceeded := looking.result()) is not None:
            self._bark(exceeded)
        else:
            self._failures = 0
            self._rest(max(INTERVAL_SECONDS, self._took * REST_PER_LOOK))

    def _failed(self, failure: BaseException) -> None:
        """A machine short of descriptors is so for a moment; an agent nobody watches is ended."""
        self._failures += 1
        log.warning("a limit of a running agent could not be looked at: %s", failure)
        if self._failures < MOST_FAILURES:
            self._rest(INTERVAL_SECONDS)
        else:
            self._bark(UNWATCHED)
