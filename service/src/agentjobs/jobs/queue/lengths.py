"""How many jobs of each organization wait, remembered for a second while a queue is long.

Counting takes time in proportion to the queue, and every created job asks for it. A short queue is
always counted, and so is one that is near the limit.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

MIN_REMEMBERED = 50
LIMIT_MARGIN = 100
MAX_AGE_SECONDS = 1.0


class _Length(NamedTuple):
    jobs: int
    counted_at: float


class QueueLengths:
    """Jobs created by this process are added; what others do is missed for at most a second."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_remembered = limit - LIMIT_MARGIN
        self._clock = clock
        self._lengths: dict[str, _Length] = {}

    def get(self, organization_id: str) -> int | None:
        """None if the jobs must be counted."""
        length = self._lengths.get(organization_id)
        if length is None or self._clock() - length.counted_at > MAX_AGE_SECONDS:
            return None
        return length.jobs if length.jobs <= self._max_remembered else None

    def set(self, organization_id: str, jobs: int) -> None:
        """After a count."""
        if jobs < MIN_REMEMBERED:
            self._lengths.pop(organization_id, None)
        else:
            self._lengths[organization_id] = _Length(jobs, self._clock())

    def add(self, organization_id: str, jobs: int) -> None:
        length = self._lengths.get(organization_id)
        if length is not None:
            self._lengths[organization_id] = _Length(length.jobs + jobs, length.counted_at)
