"""How many jobs a worker claims, and of which organizations, after jobs that it has just run."""

import logging
import math
import time
from collections.abc import Callable, Iterable

from agentjobs_runtime.protocol.outcomes import Abandoned, LostSandbox, Outcome

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
# Jobs may run for hours, so time without a loss counts as well.
_RECOVERY_SECONDS = 30.0

_log = logging.getLogger(__name__)
RESERVED_SECONDS = 2.0
POSTPONED_SECONDS = 0.5
_FAILED_AT_ONCE_SECONDS = 1.0


class LoadControl:
    """Halves the number after a job that the machine could not run, and adds one after each that
    it could, and every half minute. Jobs that were claimed before the last loss say nothing new."""

    def __init__(self, slots: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._clock = clock
        self._limit = slots
        self._losses = 0
        self._lost_at = -math.inf
        self._paused_until = -math.inf

    def free(self, active: int) -> int:
        """How many jobs may be claimed now, beside the active ones."""
        return 0 if self._clock() < self._paused_until else max(0, self._current_limit() - active)

    def record(self, claimed_at: float, outcome: Outcome) -> None:
        if claimed_at < self._lost_at:
            return
        is_exhausted = isinstance(outcome, LostSandbox) and outcome.is_host_exhausted
        if not is_exhausted and not isinstance(outcome, Abandoned):
            self._losses = 0
            self._limit = min(self._slots, self._limit + 1)
            return
        now = self._clock()
        self._limit = max(1, self._current_limit() // 2)
        seconds = min(_FIRST_PAUSE_SECONDS * 2**self._losses, _MAX_PAUSE_SECONDS)
        self._losses += 1
        self._lost_at, self._paused_until = now, now + seconds
        _log.warning(
            "this machine is overloaded: the worker claims nothing for %d s, then up to %d jobs",
            seconds,
            self._limit,
        )

    def _current_limit(self) -> int:
        recovered = (self._clock() - self._lost_at) // _RECOVERY_SECONDS
        return int(min(self._slots, self._limit + recovered))


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
