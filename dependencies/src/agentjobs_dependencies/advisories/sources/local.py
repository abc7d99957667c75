"""Advisories from a local directory or zip, for operators without a network.

Runs the blocking code of `locations` in threads.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentjobs_dependencies.advisories.sources.locations import open_location
from agentjobs_dependencies.advisories.sources.source import FeedItem, FullFeed, batch_items


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

    async def changed_since(self, *_: object) -> None:
        """Change lists are not read: the whole feed takes seconds."""

    def records(self, *_: object) -> AsyncIterator[list[FeedItem]]:
        raise NotImplementedError


async def read_in_thread(batches: Iterator[list[FeedItem]]) -> AsyncIterator[list[FeedItem]]:
    """Read blocking batches in a thread, one at a time."""
    end: list[FeedItem] = []
    while batch := await asyncio.to_thread(next, batches, end):
        yield batch
