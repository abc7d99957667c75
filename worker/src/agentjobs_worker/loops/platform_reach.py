"""Notices that this worker does not reach a platform that others reach, and leaves jobs to them."""

import logging
import math
import time
from collections.abc import Callable

from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, Kept, Outcome, Reported, Unreachable

_FIRST_PAUSE_SECONDS = 10.0
_MAX_PAUSE_SECONDS = 60.0
# Failures with more time between them are outages that have nothing to do with each other.
_FORGET_SECONDS = 600.0

_log = logging.getLogger(__name__)


class PlatformReach:
    """A platform that one worker does not reach has an outage, for which the jobs of all workers
    wait, until another one reaches it. If a job that did not have to wait fails here again, only
    this worker is cut off."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By the key of the platform or repository: how many failures, and when the last one was.
        self._failures: dict[str, tuple[int, float]] = {}
        self._paused_until = -math.inf

    @property
    def is_paused(self) -> bool:
        """Whether this worker should claim nothing."""
        return self._clock() < self._paused_until

    def record(self, job: ClaimedJob, claimed_at: float, outcome: Outcome) -> None:
        if isinstance(outcome, Completed | Kept | Reported):
            for key in job.platform_keys:
                self._failures.pop(key, None)
        outage = outcome.outage if isinstance(outcome, Unreachable) else None
        if outage is not None and outage.key in job.platform_keys and not job.has_outage:
            self._add_failure(outage.key, claimed_at)

    def _add_failure(self, key: str, claimed_at: float) -> None:
        count, failed_at = self._failures.get(key, (0, -math.inf))
        if claimed_at <= failed_at:
            # Jobs that ran at the same time meet the same outage.
            return
        now = self._clock()
        if now - failed_at > _FORGET_SECONDS:
            count = 0
        self._failures[key] = count + 1, now
        if count:
            seconds = min(_FIRST_PAUSE_SECONDS * 2 ** (count - 1), _MAX_PAUSE_SECONDS)
            self._paused_until = now + seconds
            _log.warning(
                "this worker does not reach the platform (%s), but others do:"
                " it claims no jobs for %d seconds",
                key,
                seconds,
            )
