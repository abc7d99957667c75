"""Advisories from an address: OSV's own bucket, or a mirror of it in the same layout."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
from yarl import URL

from agentjobs.advisories.sources.archive import Archive
from agentjobs.advisories.sources.download import ask, read_bounded, save
from agentjobs.advisories.sources.local import threaded
from agentjobs.advisories.sources.source import (
    MAX_LIST_BYTES,
    MAX_RECORD_BYTES,
    Everything,
    FeedWarning,
    Piece,
    Record,
    SourceError,
    SourceNotFound,
    changed_ids,
    grouped,
    in_batches,
    moment,
)

# What is asked for at once, and what is kept in memory until it is stored.
_AT_ONCE = 8
_GROUP_RECORDS = 50
_ENOUGH_BYTES = 64 * 1024


class RemoteSource:
    def __init__(self, base: str, session: aiohttp.ClientSession, work_dir: Path) -> None:
        self._base = URL(base.rstrip("/"))
        self._session = session
        self._work_dir = work_dir
        self.name = str(self._base.with_user(None))

    @asynccontextmanager
    async def everything(self, ecosystem: str, known_mark: str | None) -> AsyncIterator[Everything]:
        headers = {"If-None-Match": known_mark} if known_mark else {}
        url = self._base / ecosystem / "all.zip"
        async with ask(self._session, url, headers) as answer:
            if answer.status == 304:
                yield Everything(known_mark)
                return
            mark = answer.headers.get("ETag")
            file = await save(answer, self._work_dir)
        # The server need not wait while we read.
        try:
            archive = await asyncio.to_thread(Archive, file, str(url.with_user(None)))
            yield Everything(mark, archive.count(), threaded(in_batches(archive.pieces())))
        finally:
            await asyncio.to_thread(file.close)

    async def changed_since(
        self, ecosystem: str, since: datetime, most: int
    ) -> Sequence[str] | None:
        url = self._base / ecosystem / "modified_id.csv"
        try:
            async with ask(self._session, url) as answer:
                text = await _newest_lines(answer, since)
        except SourceNotFound:
            return None
        return changed_ids(iter(text.splitlines()), since, most)

    async def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[Piece]]:
        turns = asyncio.Semaphore(_AT_ONCE)
        for group in grouped(ids, _GROUP_RECORDS):
            tasks = [asyncio.create_task(self._record(ecosystem, one, turns)) for one in group]
            try:
                yield list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

    async def _record(self, ecosystem: str, identifier: str, turns: asyncio.Semaphore) -> Piece:
        url = self._base / ecosystem / f"{identifier}.json"
        async with turns, ask(self._session, url) as answer:
            try:
                return Record(url.name, await read_bounded(answer, MAX_RECORD_BYTES))
            except ValueError as error:
                return FeedWarning(url.name, str(error))


async def _newest_lines(answer: aiohttp.ClientResponse, since: datetime) -> str:
    """The list is long and its newest lines come first: no more is read than is wanted."""
    data = bytearray()
    looked_at = 0
    async for chunk in answer.content.iter_chunked(_ENOUGH_BYTES):
        data += chunk
        end = data.rfind(b"\n")
        if end > looked_at:
            start = data.rfind(b"\n", 0, end) + 1
            last = moment(data[start:end].split(b",")[0].decode("ascii", "replace"))
            if last is not None and last < since:
                return data[: end + 1].decode("utf-8", "replace")
            looked_at = end
        if len(data) > MAX_LIST_BYTES:
            raise SourceError(f"{answer.url.with_user(None)} is larger than such a list may be")
    return data.decode("utf-8", "replace")
