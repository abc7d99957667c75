"""How much platforms may tell at once: a pace for each connection, and room for what is being read.

In the memory of this process. Knows neither stores nor requests.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agentjobs.problems import Problem
from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.rate_limit import RateLimiter

HOOKS_PER_SECOND = 10.0
HOOKS_AT_ONCE = 100
ROOM_BYTES = 64 * 1024 * 1024
# Of one connection: whoever knows its address can begin to send.
ROOM_OF_ONE_BYTES = 16 * 1024 * 1024
_RETRY_SECONDS = 5


class HookLimits:
    def __init__(self) -> None:
        self._pace = RateLimiter(HOOKS_PER_SECOND, HOOKS_AT_ONCE)
        self._held: Counter[str] = Counter()

    def take(self, connection_id: str) -> None:
        """One delivery that is believed; raises `rate_limited` when there were too many."""
        try:
            self._pace.take(connection_id)
        except Problem as refusal:
            raise Problem(
                "rate_limited",
                f"More than {HOOKS_PER_SECOND:g} deliveries per second arrive for this"
                " connection; send them again later.",
                retry_after_seconds=refusal.retry_after_seconds,
            ) from None

    @contextmanager
    def room(self, connection_id: str) -> Iterator["Room"]:
        """For one body, until it was looked at."""
        held = Room(self._held, connection_id)
        try:
            yield held
        finally:
            held.release()


class Room:
    def __init__(self, held: Counter[str], connection_id: str) -> None:
        self._all = held
        self._connection_id = connection_id
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Raises `unavailable` when too much is being read already."""
        of_one = self._all[self._connection_id] + size
        if of_one > ROOM_OF_ONE_BYTES or self._all.total() + size > ROOM_BYTES:
            raise HttpProblem(
                "unavailable",
                "Too many deliveries arrive at once; send this one again in a moment.",
                # The rest is still on its way: this connection cannot carry another request.
                headers={"Connection": "close"},
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._all[self._connection_id] = of_one
        self._bytes += size

    def release(self) -> None:
        self._all[self._connection_id] -= self._bytes
        if not self._all[self._connection_id]:
            del self._all[self._connection_id]
