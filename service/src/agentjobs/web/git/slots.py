"""Limits the git processes that one organization may run at the same time, and their CPU time.

More requests wait, up to a bound, so that pushes of one tenant never take the machine from others.
"""

import math
import time
from asyncio import Semaphore
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentjobs_runtime.problems import Problem

MAX_WAITING_PER_SLOT = 16
RETRY_SECONDS = 5
# The share of one core, on average over a long time.
CPU_SHARE_PER_SLOT = 0.25


class GitSlots:
    """`max_cpu_seconds`: an organization may use so much at once, and its share all the time."""

    def __init__(self, per_organization: int, max_cpu_seconds: float = math.inf) -> None:
        self._per_organization = per_organization
        self._max_cpu_seconds = max_cpu_seconds
        self._cpu_share = per_organization * CPU_SHARE_PER_SLOT
        # CPU seconds in excess of the share, and when that was.
        self._excess: dict[str, tuple[float, float]] = {}
        self._requests: Counter[str] = Counter()
        self._slots: dict[str, Semaphore] = {}

    def charge(self, organization_id: str, cpu_seconds: float) -> None:
        excess = self._excess_now(organization_id) + cpu_seconds
        self._excess[organization_id] = (excess, time.monotonic())

    def check_cpu_time(self, organization_id: str) -> None:
        """Raises `rate_limited` if the organization has used its CPU time."""
        too_much = self._excess_now(organization_id) - self._max_cpu_seconds
        if too_much > 0:
            raise Problem(
                "rate_limited",
                "The clones and pushes of this organization take more CPU time than"
                " limit_git_cpu_seconds allows. Try again later, with fewer or smaller ones.",
                retry_after_seconds=math.ceil(too_much / self._cpu_share),
            )

    def _excess_now(self, organization_id: str) -> float:
        excess, at = self._excess.get(organization_id, (0.0, 0.0))
        return max(0.0, excess - (time.monotonic() - at) * self._cpu_share)

    @asynccontextmanager
    async def hold(self, organization_id: str) -> AsyncIterator[None]:
        """Wait for a free slot. Raises `rate_limited` if too many requests wait already."""
        limit = self._per_organization * (1 + MAX_WAITING_PER_SLOT)
        if self._requests[organization_id] >= limit:
            raise Problem(
                "rate_limited",
                f"This organization runs {limit} git operations. Try again when some have ended.",
                retry_after_seconds=RETRY_SECONDS,
            )
        slots = self._slots.setdefault(organization_id, Semaphore(self._per_organization))
        self._requests[organization_id] += 1
        try:
            async with slots:
                yield
        finally:
            self._requests[organization_id] -= 1
            if not self._requests[organization_id]:
                del self._requests[organization_id], self._slots[organization_id]
