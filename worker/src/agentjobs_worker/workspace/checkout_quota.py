"""Limits what the checkouts of one organization take at the same time on a worker."""

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agentjobs_runtime.mirrors.errors import RepoUnavailable

# A job that waits occupies a slot of the worker; afterwards it is queued again.
MAX_WAIT_SECONDS = 60.0


class CheckoutQuota:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, organization: str, max_bytes: int) -> AsyncIterator[Callable[[int], None]]:
        """Wait until the organization has room for the checkout, or no other one.

        Call the value with the size once it is known. Raises RepoUnavailable, as for a full disk.
        """
        own_bytes = 0

        def resize(size_bytes: int) -> None:
            nonlocal own_bytes
            self._held[organization] += size_bytes - own_bytes
            own_bytes = size_bytes
            self._changed.set()

        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                while 0 < self._held[organization] > self._max_bytes - max_bytes:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            message = "other jobs of the organization have what limit_organization_disk_mib allows"
            raise RepoUnavailable(message) from OSError(errno.EDQUOT, "disk quota exceeded")
        resize(max_bytes)
        try:
            yield resize
        finally:
            resize(0)
