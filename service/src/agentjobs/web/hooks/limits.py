"""Limits for webhooks of platforms: a rate per connection, and memory for bodies being read.

What exceeds them is dropped, never refused: GitLab disables hooks that get errors, and the next
poll finds what was dropped. Kept in the memory of this process. Knows neither stores nor requests.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agentjobs.web.api.rate_limit import RateLimiter
from agentjobs_runtime.problems import Problem

HOOKS_PER_SECOND = 10.0
HOOKS_BURST = 100
MAX_TOTAL_BYTES = 64 * 1024 * 1024
# Per connection, because anyone who knows its URL can start to send.
MAX_CONNECTION_BYTES = 16 * 1024 * 1024
_LOG_SECONDS = 60.0
_log = logging.getLogger(__name__)


class DeliveryDropped(Exception):
    """Too many deliveries arrive at once; this one is not processed."""


class HookLimits:
    def __init__(self) -> None:
        self._rate = RateLimiter(HOOKS_PER_SECOND, HOOKS_BURST)
        self._reserved: Counter[str] = Counter()
        self._logged_at = -_LOG_SECONDS

    def take(self, connection_id: str) -> None:
        """Count one verified delivery. Raises DeliveryDropped if there are too many."""
        try:
            self._rate.take(connection_id)
        except Problem:
            raise DeliveryDropped from None

    @contextmanager
    def reserve(self, connection_id: str) -> Iterator["BodyMemory"]:
        """Memory for one body, while it is processed."""
        memory = BodyMemory(self._reserved, connection_id)
        try:
            yield memory
        finally:
            memory.release()

    def log_dropped(self, connection_id: str) -> None:
        """Logs at most once a minute."""
        if time.monotonic() >= self._logged_at + _LOG_SECONDS:
            self._logged_at = time.monotonic()
            fields = {"connection_id": connection_id}
            _log.warning("webhooks are dropped: too many arrive", extra={"fields": fields})


class BodyMemory:
    def __init__(self, reserved: Counter[str], connection_id: str) -> None:
        self._all = reserved
        self._connection_id = connection_id
        self._bytes = 0

    def add(self, size: int) -> bool:
        """False if too much is being read already."""
        of_connection = self._all[self._connection_id] + size
        if of_connection > MAX_CONNECTION_BYTES or self._all.total() + size > MAX_TOTAL_BYTES:
            return False
        self._all[self._connection_id] = of_connection
        self._bytes += size
        return True

    def release(self) -> None:
        self._all[self._connection_id] -= self._bytes
        self._bytes = 0
        if not self._all[self._connection_id]:
            del self._all[self._connection_id]
