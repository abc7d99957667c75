"""Which topics of single jobs and organizations are watched in another process.

A notification wakes every process of the fleet, and most of these topics interest nobody. A process
that waits for one asks for it, and repeats that while it waits.
"""

import time
from collections.abc import Callable, Set

ASK_SECONDS = 10.0
"""How often a process repeats what it watches."""
_WATCHED_SECONDS = 2.5 * ASK_SECONDS
# What others watched before this process listened is known when they have repeated it.
_UNKNOWN_SECONDS = 1.5 * ASK_SECONDS
# Longer than a request takes to arrive: a change in between would be missed.
_KEPT_SECONDS = 2.0


def is_watchable(topic: str) -> bool:
    return ":" in topic


class WatchedTopics:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched_until: dict[str, float] = {}
        # Topics that were not sent, the oldest first.
        self._withheld_at: dict[str, float] = {}
        self.forget()

    def forget(self) -> None:
        """Requests of others may have been missed until now: everything counts as watched."""
        self._known_at = self._clock() + _UNKNOWN_SECONDS

    def select(self, topics: Set[str]) -> set[str]:
        """Topics that other processes must be notified of."""
        now = self._clock()
        wanted = {topic for topic in topics if self._is_wanted(topic, now)}
        for topic in topics - wanted:
            self._withheld_at.pop(topic, None)
            self._withheld_at[topic] = now
        self._drop_old(now)
        return wanted

    def add(self, topics: Set[str]) -> set[str]:
        """Another process watches these topics; returns those that just changed."""
        now = self._clock()
        for topic in topics:
            self._watched_until.pop(topic, None)
            self._watched_until[topic] = now + _WATCHED_SECONDS
        self._drop_old(now)
        return {topic for topic in topics if self._withheld_at.pop(topic, None) is not None}

    def _is_wanted(self, topic: str, now: float) -> bool:
        if not is_watchable(topic) or now < self._known_at:
            return True
        return self._watched_until.get(topic, 0) > now

    def _drop_old(self, now: float) -> None:
        _drop_until(self._withheld_at, now - _KEPT_SECONDS)
        _drop_until(self._watched_until, now)


def _drop_until(times: dict[str, float], limit: float) -> None:
    """Deletes the oldest entries of a dict that is ordered by time."""
    while times and (oldest := next(iter(times.items())))[1] <= limit:
        del times[oldest[0]]
