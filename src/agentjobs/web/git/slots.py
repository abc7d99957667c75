"""Limits the git processes that one organization may run at the same time.

More requests wait, up to a bound, so that pushes of one tenant never take the machine from others.
"""

from asyncio import Semaphore
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentjobs.problems import Problem

MAX_WAITING_PER_SLOT = 16
RETRY_SECONDS = 5


class GitSlots:
    def __init__(self, per_organization: int) -> None:
        self._per_organization = per_organization
        self._requests: Counter[str] = Counter()
        self._slots: dict[str, Semaphore] = {}

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
