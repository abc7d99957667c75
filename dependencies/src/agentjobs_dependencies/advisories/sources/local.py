"""Advisories from a local directory or zip, for operators without a network.

Runs the blocking code of `locations` in threads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from agentjobs_dependencies.advisories.sources.locations import Location, open_location
from agentjobs_dependencies.advisories.sources.source import (
    BATCH_RECORDS,
    FeedItem,
    FullFeed,
    batch_items,
    chunk_ids,
    read_changed_ids,
)

T = TypeVar("T")


class LocalSource:
    def __init__(self, path: Path, work_dir: Path) -> None:
        self.name = str(path)
        self._path = path
        self._work_dir = work_dir

    @asynccontextmanager
    async def full_feed(
        self, ecosystem: str, known_revision: str | None
    ) -> AsyncIterator[FullFeed]:
        location = await asyncio.to_thread(open_location, self._path, self._work_dir)
        try:
            revision = await asyncio.to_thread(location.revision, ecosystem)
            if revision == known_revision:
                yield FullFeed(revision)
                return
            total, items = await asyncio.to_thread(location.items, ecosystem)
            yield FullFeed(revision, total, read_in_thread(batch_items(items)))
        finally:
            await asyncio.to_thread(location.close)

    async def changed_since(
        self, ecosystem: str, since: datetime, limit: int
    ) -> Sequence[str] | None:
        def read(location: Location) -> list[str] | None:
            lines = location.changes(ecosystem)
            return None if lines is None else read_changed_ids(lines, since, limit)

        return await asyncio.to_thread(self._with_location, read)

    async def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[FeedItem]]:
        for group in chunk_ids(ids, BATCH_RECORDS):

            def read(location: Location, group: list[str] = group) -> list[FeedItem]:
                return [location.item(ecosystem, identifier) for identifier in group]

            yield await asyncio.to_thread(self._with_location, read)

    def _with_location(self, work: Callable[[Location], T]) -> T:
        location = open_location(self._path, self._work_dir)
        try:
            return work(location)
        finally:
            location.close()


async def read_in_thread(batches: Iterator[list[FeedItem]]) -> AsyncIterator[list[FeedItem]]:
    """Read blocking batches in a thread, one at a time."""
    end: list[FeedItem] = []
    while batch := await asyncio.to_thread(next, batches, end):
        yield batch
