"""When a sender looks for retries: when one of its own is due, and now and then for the others'."""

import heapq

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
    def next_look(self) -> int:
        return min([self._next_poll, *self._due[:1]])

    def looked(self, now: int) -> None:
        self._next_poll = now + POLL_MS
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
