"""When a sender looks for retries: when one of its own is due, and now and then for the others'.

Due times are of the calendar; the rest is counted by a clock that nobody can set.
"""

import heapq

from agentjobs.clock import elapsed_ms, now_ms

POLL_MS = 1_000


class Timetable:
    def __init__(self) -> None:
        self._next_poll = 0
        self._due: list[int] = []

    def note(self, due_at: int) -> None:
        heapq.heappush(self._due, due_at)

    def look_soon(self) -> None:
        """There is room again, or there was more than could be looked at."""
        self._next_poll = 0

    @property
    def wait_ms(self) -> int:
        """Until the next look; 0 when it is time."""
        waits = [self._next_poll - elapsed_ms(), *(due - now_ms() for due in self._due[:1])]
        return max(0, min(*waits, POLL_MS))

    def looked(self) -> None:
        self._next_poll = elapsed_ms() + POLL_MS
        now = now_ms()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
