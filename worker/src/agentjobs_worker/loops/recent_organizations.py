"""Which organizations a worker favours or postpones because of the jobs it has just run."""

import time
from collections.abc import Callable, Iterable

RESERVED_SECONDS = 2.0
POSTPONED_SECONDS = 0.5
_FAILED_AT_ONCE_SECONDS = 1.0


class RecentOrganizations:
    """Organizations whose jobs ended on this worker a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended: dict[str, float] = {}
        self._failed_at_once: dict[str, float] = {}

    def add(self, organization_id: str, claimed_at: float, *, has_failed: bool) -> None:
        now = self._clock()
        self._ended[organization_id] = now
        if has_failed and now - claimed_at < _FAILED_AT_ONCE_SECONDS:
            self._failed_at_once[organization_id] = now

    def without(self, active: Iterable[str]) -> frozenset[str]:
        """Their next jobs start at once, though another organization fills the queue."""
        self._ended = self._since(self._ended, RESERVED_SECONDS)
        return frozenset(self._ended).difference(active)

    def postponed(self, active: Iterable[str]) -> frozenset[str]:
        """Organizations whose jobs fail at once: many of these would slow down other jobs."""
        self._failed_at_once = self._since(self._failed_at_once, POSTPONED_SECONDS)
        served = self.without(()) | frozenset(active)
        return frozenset(id_ for id_ in self._failed_at_once if served - {id_})

    def _since(self, times: dict[str, float], seconds: float) -> dict[str, float]:
        since = self._clock() - seconds
        return {id_: at for id_, at in times.items() if at > since}
