"""Rows that were finished since the last scrape, each once."""

from collections.abc import Awaitable, Callable, Sequence

from agentjobs.store.database import Row
from agentjobs_runtime.clock import SECOND_MS, elapsed_ms

# They are read again for this long, because commits may be late.
_OVERLAP_MS = 60 * SECOND_MS


class FinishedRows:
    """Rows that were finished since this object was created, by the clock of the database."""

    def __init__(self, time_column: str) -> None:
        self._time_column = time_column
        self._created_at = elapsed_ms()
        # The first scrape reads the clock.
        self._since: int | None = None
        self._counted: dict[str, int] = {}

    async def new(self, now: int, read: Callable[[int], Awaitable[Sequence[Row]]]) -> list[Row]:
        """`read` returns the rows that were finished after a time."""
        if self._since is None:
            self._since = now - (elapsed_ms() - self._created_at)
        rows = [row for row in await read(self._since) if row["id"] not in self._counted]
        self._since = since = max(self._since, now - _OVERLAP_MS)
        self._counted |= {row["id"]: row[self._time_column] for row in rows}
        self._counted = {id_: at for id_, at in self._counted.items() if at > since}
        return rows
