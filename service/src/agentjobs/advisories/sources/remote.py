"""Advisories from a URL: OSV's bucket or a mirror with the same layout."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
from yarl import URL

from agentjobs.advisories.sources.download import fetch, read_limited, save
from agentjobs_dependencies.advisories.sources.archive import Archive
from agentjobs_dependencies.advisories.sources.local import read_in_thread
from agentjobs_dependencies.advisories.sources.source import (
    MAX_LIST_BYTES,
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
_CHUNK_BYTES = 64 * 1024


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
        try:
            async with fetch(self._session, url) as response:
                text = await _newest_lines(response, since)
        except SourceNotFound:
            return None
        return read_changed_ids(iter(text.splitlines()), since, limit)

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


async def _newest_lines(response: aiohttp.ClientResponse, since: datetime) -> str:
    """Reads only as much of the long list as needed; its newest lines come first."""
    data = bytearray()
    checked_until = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        data += chunk
        end = data.rfind(b"\n")
        if end > checked_until:
            start = data.rfind(b"\n", 0, end) + 1
            last = parse_time(data[start:end].split(b",")[0].decode("ascii", "replace"))
            if last is not None and last < since:
                return data[: end + 1].decode("utf-8", "replace")
            checked_until = end
        if len(data) > MAX_LIST_BYTES:
            raise SourceError(
                f"{response.url.with_user(None)} exceeds the size limit of change lists"
            )
    return data.decode("utf-8", "replace")
