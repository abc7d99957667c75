"""Advisories from a URL: OSV's bucket or a mirror with the same layout."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from agentjobs.advisories.sources.download import fetch, read_limited, save
from agentjobs_dependencies.advisories.sources.archive import Archive
from agentjobs_dependencies.advisories.sources.local import read_in_thread
from agentjobs_dependencies.advisories.sources.source import (
    MAX_RECORD_BYTES,
    FeedItem,
    FeedWarning,
    FullFeed,
    Record,
    SourceError,
    SourceNotFound,
    batch_items,
    chunk_ids,
    parse_time,
    read_changed_ids,
)

# Concurrent requests, and records kept in memory until they are stored.
_MAX_CONCURRENT = 8
_GROUP_RECORDS = 50


class RemoteSource:
    def __init__(self, base: str, session: aiohttp.ClientSession, work_dir: Path) -> None:
        self._base = URL(base.rstrip("/"))
        self._session = session
        self._work_dir = work_dir
        self.name = str(self._base.with_user(None))

    @asynccontextmanager
    async def full_feed(
        self, ecosystem: str, known_revision: str | None
    ) -> AsyncIterator[FullFeed]:
        headers = {"If-None-Match": known_revision} if known_revision else {}
        url = self._base / ecosystem / "all.zip"
        async with fetch(self._session, url, headers) as response:
            if response.status == 304:
                yield FullFeed(known_revision)
                return
            revision = response.headers.get("ETag")
            file = await save(response, self._work_dir)
        # Reads the file after the connection is closed.
        try:
            archive = await asyncio.to_thread(Archive, file, str(url.with_user(None)))
            yield FullFeed(revision, archive.count(), read_in_thread(batch_items(archive.items())))
        finally:
            await asyncio.to_thread(file.close)

    async def changed_since(
        self, ecosystem: str, since: datetime, limit: int
    ) -> Sequence[str] | None:
        url = self._base / ecosystem / "modified_id.csv"
        lines: list[str] = []
        try:
            async with fetch(self._session, url) as response:
                # Only as much of the long list as needed: its newest lines come first.
                async for line in response.content:
                    lines.append(line.decode("utf-8", "replace"))
                    changed_at = parse_time(lines[-1].partition(",")[0])
                    if changed_at is not None and changed_at < since:
                        break
                    if len(lines) > limit:
                        return None
        except SourceNotFound:
            return None
        except LineTooLong:
            raise SourceError(f"{url.with_user(None)} has a line that is too long") from None
        return read_changed_ids(iter(lines), since, limit)

    async def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[FeedItem]]:
        slots = asyncio.Semaphore(_MAX_CONCURRENT)
        for group in chunk_ids(ids, _GROUP_RECORDS):
            tasks = [
                asyncio.create_task(self._record(ecosystem, identifier, slots))
                for identifier in group
            ]
            try:
                yield list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

    async def _record(self, ecosystem: str, identifier: str, slots: asyncio.Semaphore) -> FeedItem:
        url = self._base / ecosystem / f"{identifier}.json"
        async with slots, fetch(self._session, url) as response:
            try:
                return Record(url.name, await read_limited(response, MAX_RECORD_BYTES))
            except ValueError as error:
                return FeedWarning(url.name, str(error))
