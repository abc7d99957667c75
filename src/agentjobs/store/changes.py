"""Who wants to hear that something changed: caches to drop, waiters to wake.

Owns topics inside one event loop. How a change reaches other processes is the engines' matter.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERYTHING = "*"

_log = logging.getLogger(__name__)


class Signal:
    """A wake-up that remembers: what is announced between two waits is not missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """True as soon as something was announced since the last wait, False when time is up."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Changes:
    """Topics and their listeners. Everything here happens on the event loop's thread."""

    def __init__(self) -> None:
        self.live = True
        """False while changes of other processes cannot be heard: caches are bypassed then."""
        self._callbacks: dict[str, dict[object, Callable[[], None]]] = {}

    def on(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever `topic`, or everything, changed; returns how to stop that."""
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
        """A signal set by any of the topics. Listen, then read, then wait: nothing is missed."""
        signal = Signal()
        stops = [self.on(topic, signal.set) for topic in topics]
        try:
            yield signal
        finally:
            for stop in stops:
                stop()

    def publish(self, *topics: str) -> None:
        """Tell the listeners of this process; `*` tells all of them."""
        for topic in self._callbacks.copy() if EVERYTHING in topics else topics:
            for callback in tuple(self._callbacks.get(topic, {}).values()):
                _call(callback)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - one listener's fault must not keep the others uninformed
        _log.exception("a listener to changes failed")
