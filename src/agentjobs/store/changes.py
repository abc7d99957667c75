"""Subscriptions to changes by topic, which clear caches and wake waiting tasks.

Works within one event loop; the engines forward changes to other processes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERYTHING = "*"

_log = logging.getLogger(__name__)


class Signal:
    """A wake-up that is remembered: announcements between two waits are not missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """True once something was announced since the last wait, False after the timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Changes:
    """Topics and their subscribers. All calls are made on the event loop's thread."""

    def __init__(self) -> None:
        self.live = True
        """False while changes of other processes may be missed: caches are bypassed then."""
        self._callbacks: dict[str, dict[object, Callable[[], None]]] = {}

    def on(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to `topic` and to EVERYTHING; returns a function that unsubscribes."""
        token = object()
        self._callbacks.setdefault(topic, {})[token] = callback

        def stop() -> None:
            subscribed = self._callbacks.get(topic, {})
            subscribed.pop(token, None)
            if not subscribed:
                self._callbacks.pop(topic, None)

        return stop

    @contextmanager
    def listen(self, *topics: str) -> Iterator[Signal]:
        """A signal set by any of the topics. Subscribe before reading, then wait."""
        signal = Signal()
        stops = [self.on(topic, signal.set) for topic in topics]
        try:
            yield signal
        finally:
            for stop in stops:
                stop()

    def publish(self, *topics: str) -> None:
        """Call the subscribers in this process; EVERYTHING calls all of them."""
        for topic in self._callbacks.copy() if EVERYTHING in topics else topics:
            for callback in tuple(self._callbacks.get(topic, {}).values()):
                _call(callback)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - the other subscribers must still be called
        _log.exception("a subscriber to changes failed")
