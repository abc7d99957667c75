"""Keeps mirrors, templates and spares within a number of bytes.

The repository used longest ago gives first. Knows no git; what is in use refuses to be dropped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Item:
    """`drop` gives False for what is in use or gone already."""

    repo_id: str
    name: str
    size_bytes: int
    used_at_ns: int
    drop: Callable[[], Awaitable[bool]]


class Shelf(Protocol):
    """A kind of things that are kept; listing them may take milliseconds and may not block."""

    async def items(self) -> Iterable[Item]: ...


def in_order_of_use(items: Sequence[Item]) -> list[Item]:
    """By when their repository was used last; of one repository in the order given."""
    last_use: dict[str, int] = {}
    for item in items:
        last_use[item.repo_id] = max(item.used_at_ns, last_use.get(item.repo_id, 0))
    return sorted(items, key=lambda item: last_use[item.repo_id])


class Cache:
    """`max_bytes` 0: no bound. Of one repository the first shelf gives before the second."""

    def __init__(self, shelves: Sequence[Shelf], max_bytes: int) -> None:
        self._shelves = shelves
        self._max_bytes = max_bytes
        # Unknown until measured for the first time.
        self._room_bytes = -1
        self._trimming: asyncio.Task[None] | None = None
        self._is_asked_again = False

    def added(self, size_bytes: int) -> None:
        """Something of this size is there now; trims in the background when it may be too much."""
        self._room_bytes -= size_bytes
        if self._room_bytes < 0:
            self.trim_soon()

    def trim_soon(self) -> None:
        if not self._max_bytes:
            return
        if self._trimming is not None:
            self._is_asked_again = True
            return
        self._trimming = asyncio.create_task(self._trim_as_asked())

    async def settle(self) -> None:
        """Wait until nothing is being removed."""
        while self._trimming is not None:
            await asyncio.wait([self._trimming])

    async def trim(self) -> None:
        """Raises OSError."""
        if not self._max_bytes:
            return
        items = [item for shelf in self._shelves for item in await shelf.items()]
        total = sum(item.size_bytes for item in items)
        for item in in_order_of_use(items):
            if total <= self._max_bytes:
                break
            if await item.drop():
                total -= item.size_bytes
                _log.info("dropped %s from the cache: %d bytes", item.name, item.size_bytes)
        self._room_bytes = self._max_bytes - total

    async def _trim_as_asked(self) -> None:
        try:
            self._is_asked_again = True
            while self._is_asked_again:
                self._is_asked_again = False
                await self.trim()
        except OSError as error:
            _log.warning("the cache cannot be trimmed: %s", error)
        finally:
            self._trimming = None
