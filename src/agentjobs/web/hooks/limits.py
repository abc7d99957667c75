"""Limits for webhooks of platforms: a rate per connection, and memory for bodies being read.

Kept in the memory of this process. Knows neither stores nor requests.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agentjobs.problems import Problem
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.rate_limit import RateLimiter

HOOKS_PER_SECOND = 10.0
HOOKS_BURST = 100
MAX_TOTAL_BYTES = 64 * 1024 * 1024
# Per connection, because anyone who knows its URL can start to send.
MAX_CONNECTION_BYTES = 16 * 1024 * 1024
_RETRY_SECONDS = 5


class HookLimits:
    def __init__(self) -> None:
        self._rate = RateLimiter(HOOKS_PER_SECOND, HOOKS_BURST)
        self._reserved: Counter[str] = Counter()

    def take(self, connection_id: str) -> None:
        """Count one verified delivery. Raises Problem `rate_limited` if there are too many."""
        try:
            self._rate.take(connection_id)
        except Problem as refusal:
            raise Problem(
                "rate_limited",
                f"More than {HOOKS_PER_SECOND:g} deliveries per second arrive for this"
                " connection; send them again later.",
                retry_after_seconds=refusal.retry_after_seconds,
            ) from None

    @contextmanager
    def reserve(self, connection_id: str) -> Iterator["BodyMemory"]:
        """Memory for one body, while it is processed."""
        memory = BodyMemory(self._reserved, connection_id)
        try:
            yield memory
        finally:
            memory.release()


class BodyMemory:
    def __init__(self, reserved: Counter[str], connection_id: str) -> None:
        self._all = reserved
        self._connection_id = connection_id
        self._bytes = 0

    def add(self, size: int) -> None:
        """Raises Problem `unavailable` if too much is being read already."""
        of_connection = self._all[self._connection_id] + size
        if of_connection > MAX_CONNECTION_BYTES or self._all.total() + size > MAX_TOTAL_BYTES:
            raise HttpProblem(
                "unavailable",
                "Too many deliveries arrive at once; send this one again later.",
                # The rest of the body is still arriving, so the connection cannot be reused.
                headers={"Connection": "close"},
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._all[self._connection_id] = of_connection
        self._bytes += size

    def release(self) -> None:
        self._all[self._connection_id] -= self._bytes
        if not self._all[self._connection_id]:
            del self._all[self._connection_id]
