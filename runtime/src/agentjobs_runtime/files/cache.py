"""Keeps mirrors, templates and spares within a number of bytes.

Evicts the least recently used repository first. Knows no git; items in use refuse to be dropped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheItem:
    """`drop` returns False if the item is in use or already gone."""

    repo_id: str
    name: str
    size_bytes: int
    used_at_ns: int
    drop: Callable[[], Awaitable[bool]]


class CacheStore(Protocol):
    """One kind of cached items. Listing them may take milliseconds but must not block."""

    async def items(self) -> Iterable[CacheItem]: ...


def sort_by_last_use(items: Sequence[CacheItem]) -> list[CacheItem]:
    """Sort by the last use of their repository; items of one repository keep their order."""
    last_use: dict[str, int] = {}
    for item in items:
        last_use[item.repo_id] = max(item.used_at_ns, last_use.get(item.repo_id, 0))
    return sorted(items, key=lambda item: last_use[item.repo_id])


class Cache:
    """`max_bytes` 0: unlimited. Within a repository, items of the first store go first."""

    def __init__(self, stores: Sequence[CacheStore], max_bytes: int) -> None:
        self._stores = stores
        self._max_bytes = max_bytes
        # Unknown until measured for the first time.
        self._free_bytes = -1
        self._trimming: asyncio.Task[None] | None = None
        self._must_trim_again = False

    def record_added(self, size_bytes: int) -> None:
        """Record a new item; trims in the background if the cache may be too large."""
        self._free_bytes -= size_bytes
        if self._free_bytes < 0:
            self.trim_soon()

    def trim_soon(self) -> None:
        if not self._max_bytes:
            return
        if self._trimming is not None:
            self._must_trim_again = True
            return
        self._trimming = asyncio.create_task(self._trim_until_done())

    async def wait_until_idle(self) -> None:
        """Wait until trimming has finished."""
        while self._trimming is not None:
            await asyncio.wait([self._trimming])

    async def trim(self) -> None:
        """Raises OSError."""
        if self._max_bytes:
            self._free_bytes = self._max_bytes - await self._trim_to(self._max_bytes)

    async def empty(self) -> None:
        """Drop everything that is not in use. Raises OSError."""
        self._free_bytes = self._max_bytes - await self._trim_to(0)

    async def repo_ids(self) -> set[str]:
        return {item.repo_id for store in self._stores for item in await store.items()}

    async def drop(self, repo_ids: Collection[str]) -> None:
        """Drop everything of these repositories that is not in use. Raises OSError."""
        for store in self._stores:
            for item in await store.items():
                if item.repo_id in repo_ids and await item.drop():
                    _log.info("dropped %s: the repository was deleted", item.name)

    async def _trim_to(self, max_bytes: int) -> int:
        """Return the size of what remains."""
        items = [item for store in self._stores for item in await store.items()]
        total = sum(item.size_bytes for item in items)
        for item in sort_by_last_use(items):
            if total <= max_bytes:
                break
            if await item.drop():
                total -= item.size_bytes
                _log.info("dropped %s from the cache: %d bytes", item.name, item.size_bytes)
        return total

    async def _trim_until_done(self) -> None:
        try:
            self._must_trim_again = True
            while self._must_trim_again:
                self._must_trim_again = False
                await self.trim()
        except OSError as error:
            _log.warning("the cache cannot be trimmed: %s", error)
        finally:
            self._trimming = None
