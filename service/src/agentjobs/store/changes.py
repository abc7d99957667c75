"""Subscriptions to changes by topic, which clear caches and wake waiting tasks.

Works within one event loop; the engines forward changes to other processes.
"""

import asyncio
import functools
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

EVERYTHING = "*"

# So many processes poll at the full rate; in a larger fleet each one polls less often.
_FULL_RATE_PROCESSES = 8
_MAX_POLL_SECONDS = 5.0
_JITTER = 0.25
# The worker that comes first has time to take what was announced; those after it follow one by one.
# Each worker checks once for all announcements until its turn: a large fleet checks less often.
_HEAD_START_SECONDS_PER_WORKER = 0.002
_MAX_HEAD_START_SECONDS = 0.1
_STEP_SECONDS_PER_WORKER = 0.0004
_MAX_SPREAD_SECONDS = 0.9

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Subscriber:
    callback: Callable[[], None]
    takes_work: bool
    passes_on: bool = False
    timer: asyncio.TimerHandle | None = None
    due_at: float = 0

    def call_after(self, seconds: float) -> None:
        """Once for all announcements until then."""
        due_at = asyncio.get_running_loop().time() + seconds
        if self.timer is None or due_at < self.due_at:
            self.cancel()
            self.due_at = due_at
            self.timer = asyncio.get_running_loop().call_later(seconds, self.call)

    def call(self) -> None:
        self.cancel()
        try:
            self.callback()
        except Exception:  # noqa: BLE001 - the other subscribers must still be called
            _log.exception("a subscriber to changes failed")

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Signal:
    """A wake-up that is remembered: announcements between two waits are not missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.subscribers: list[_Subscriber] = []

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        """Forget announcements until now, also those that are not due yet."""
        self._event.clear()
        for subscriber in self.subscribers:
            subscriber.cancel()

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
        """False while changes of other processes may be missed."""
        self.is_confirmed: Callable[[], bool] = lambda: True
        """Whether the engine heard less than a second ago that nothing was missed."""
        self.processes = 1
        """How many processes share the database, as far as this one knows."""
        self.workers = 1
        self.position: int | None = 0
        """The position of this worker among the workers; None in a process that is not a worker."""
        self.on_subscribed: Callable[[str], None] = lambda _topic: None
        """Called with the topic of each new subscriber."""
        self.pass_on: Callable[[str], None] = lambda _topic: None
        """Announces work in the other processes that the subscriber of this one cannot take."""
        self._subscribers: dict[str, list[_Subscriber]] = {}

    def may_use_caches(self) -> bool:
        """Asked before each use of a cache, which is bypassed otherwise."""
        return self.live and self.is_confirmed()

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with subscribers."""
        return tuple(self._subscribers)

    def on(
        self,
        topic: str,
        callback: Callable[[], None],
        *,
        takes_work: bool = False,
        passes_on: bool = False,
    ) -> Callable[[], None]:
        """Subscribe to `topic` and to EVERYTHING; returns a function that unsubscribes.

        `takes_work`: one subscriber of the fleet takes what was announced. If another process
        announced it, the subscribers are called one after the other. `passes_on`: the subscriber
        calls `pass_on` for what it cannot take, so that no other process hears of the rest.
        """
        subscriber = self._subscribe(topic, _Subscriber(callback, takes_work, passes_on))
        return functools.partial(self._unsubscribe, topic, subscriber)

    def _subscribe(self, topic: str, subscriber: _Subscriber) -> _Subscriber:
        self._subscribers.setdefault(topic, []).append(subscriber)
        self.on_subscribed(topic)
        return subscriber

    def _unsubscribe(self, topic: str, subscriber: _Subscriber) -> None:
        subscriber.cancel()
        subscribed = self._subscribers.get(topic, [])
        if subscriber in subscribed:
            subscribed.remove(subscriber)
        if not subscribed:
            self._subscribers.pop(topic, None)

    @contextmanager
    def listen(self, *topics: str, takes_work: bool = False) -> Iterator[Signal]:
        """A signal set by any of the topics. Subscribe before reading, then wait."""
        signal = Signal()
        signal.subscribers = [
            self._subscribe(topic, _Subscriber(signal.set, takes_work)) for topic in topics
        ]
        try:
            yield signal
        finally:
            for topic, subscriber in zip(topics, signal.subscribers, strict=True):
                self._unsubscribe(topic, subscriber)

    def publish(self, *topics: str, number: int | None = None) -> None:
        """Call the subscribers in this process; EVERYTHING calls all of them.

        `number` is that of an announcement of another process: it decides which worker of the fleet
        takes the work up at once, and those after it follow one by one.
        """
        delay_seconds = 0.0 if number is None else self._delay_seconds(number)
        for topic in self._subscribers.copy() if EVERYTHING in topics else topics:
            for subscriber in tuple(self._subscribers.get(topic, ())):
                if delay_seconds and subscriber.takes_work:
                    subscriber.call_after(delay_seconds)
                else:
                    subscriber.call()

    def _delay_seconds(self, number: int) -> float:
        place = self.workers if self.position is None else (self.position - number) % self.workers
        if place == 0:
            return 0.0
        step = min(self.workers * _STEP_SECONDS_PER_WORKER, _MAX_SPREAD_SECONDS / self.workers)
        head_start = min(self.workers * _HEAD_START_SECONDS_PER_WORKER, _MAX_HEAD_START_SECONDS)
        return head_start + (place - 1) * step

    def is_taken_here(self, topic: str) -> bool:
        """Whether this process itself takes the work that `topic` announces."""
        return any(subscriber.takes_work for subscriber in self._subscribers.get(topic, ()))

    def is_left_to_subscriber(self, topic: str) -> bool:
        """Whether other processes hear of the work only if the subscriber here passes it on."""
        return any(subscriber.passes_on for subscriber in self._subscribers.get(topic, ()))

    def poll_seconds(self, seconds: float, max_seconds: float = _MAX_POLL_SECONDS) -> float:
        """How long to wait until the next check for work that was not announced."""
        if self.processes <= _FULL_RATE_PROCESSES or not self.live:
            return seconds
        jitter = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
        return min(seconds * self.processes / _FULL_RATE_PROCESSES, max_seconds) * jitter
