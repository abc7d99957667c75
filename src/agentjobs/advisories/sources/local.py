"""Advisories from this machine's disk, as an operator without a network keeps them.

The blocking half is `places`; here it is done in threads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from agentjobs.advisories.sources.locations import Place, open_location
from agentjobs.advisories.sources.source import (
    BATCH_RECORDS,
    Everything,
    Piece,
    changed_ids,
    grouped,
    in_batches,
)

T = TypeVar("T")


class LocalSource:
    def __init__(self, path: Path, work_dir: Path) -> None:
        self.name = str(path)
        self._path = path
        self._work_dir = work_dir

    @asynccontextmanager
    async def everything(self, ecosystem: str, known_mark: str | None) -> AsyncIterator[Everything]:
        place = await asyncio.to_thread(open_location, self._path, self._work_dir)
        try:
            mark = await asyncio.to_thread(place.mark, ecosystem)
            if mark == known_mark:
                yield Everything(mark)
                return
            total, pieces = await asyncio.to_thread(place.pieces, ecosystem)
            yield Everything(mark, total, threaded(in_batches(pieces)))
        finally:
            await asyncio.to_thread(place.close)

    async def changed_since(
        self, ecosystem: str, since: datetime, most: int
    ) -> Sequence[str] | None:
        def read(place: Place) -> list[str] | None:
            lines = place.changes(ecosystem)
            return None if lines is None else changed_ids(lines, since, most)

        return await asyncio.to_thread(self._with_place, read)

    async def records(self, ecosystem: str, ids: Sequence[str]) -> AsyncIterator[list[Piece]]:
        for group in grouped(ids, BATCH_RECORDS):

            def read(place: Place, group: list[str] = group) -> list[Piece]:
                return [place.piece(ecosystem, one) for one in group]

            yield await asyncio.to_thread(self._with_place, read)

    def _with_place(self, work: Callable[[Place], T]) -> T:
        place = open_location(self._path, self._work_dir)
        try:
            return work(place)
        finally:
            place.close()


async def threaded(batches: Iterator[list[Piece]]) -> AsyncIterator[list[Piece]]:
    """What blocks while it is read, one batch at a time in a thread."""
    nothing: list[Piece] = []
    while batch := await asyncio.to_thread(next, batches, nothing):
        yield batch
