"""Brings one feed up to date: what changed since, or everything. Old data stays until replaced.

Each batch is a short transaction: the store's writer belongs to the API as well.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from agentjobs.advisories import rows
from agentjobs.advisories.feeds import Feed, FeedClaim, Synced, delete_feed, ensure_feeds
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.parse import id_of_path, look, newest, read
from agentjobs.advisories.scans import request_scans
from agentjobs.advisories.sources.source import (
    BATCH_RECORDS,
    Everything,
    FeedWarning,
    Note,
    Piece,
    Source,
    SourceError,
    SourceNotFound,
    moment,
)
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import run_renewing

# A few milliseconds of a writer that everybody waits for.
_ROWS_AT_ONCE = 40
# More than that is quicker read from the archive.
_MAX_NEWS = 2_000
# Records appear in a bucket somewhat later than their time says.
_OVERLAP = timedelta(hours=1)
# A list of changes does not tell what was deleted, so each so many times everything is read.
_RENEW_SECONDS = 15.0
_EVERYTHING_EACH = 28
# If we die in the middle, what we changed is looked at after this.
_SCAN_AFTER_CRASH_MS = 10 * 60 * 1_000


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    ecosystem: str
    kind: Literal["full", "delta", "unchanged"]
    changed: int
    removed: int
    records: int
    warnings: tuple[FeedWarning, ...]
    seconds: float


async def sync_claimed(
    db: Database,
    feed: Feed,
    source: Source,
    refresh_hours: float,
    note: Note = lambda _done, _total: None,
) -> SyncResult:
    """Raises SourceError, which is stored with the feed, or ClaimLost."""
    claim = FeedClaim(db, feed)
    every_seconds = refresh_hours * 3_600
    try:
        work = _Sync(db, feed, source, note).run()
        synced, result = await run_renewing(work, claim.renew, _RENEW_SECONDS)
    except SourceError as error:
        await claim.fail(str(error), every_seconds)
        raise
    except asyncio.CancelledError:
        await asyncio.shield(claim.give_back())
        raise
    await claim.succeed(synced, every_seconds)
    # Also when nothing is new here: a registry may answer again, or have published a fix.
    await db.transact(request_scans, [feed.ecosystem])
    return result


class _Sync:
    def __init__(self, db: Database, feed: Feed, source: Source, note: Note) -> None:
        self._db = db
        self._feed = feed
        self._ecosystem = feed.ecosystem
        self._source = source
        self._note = note
        self._begun = time.monotonic()
        first = rows.FORMAT * rows.GENERATIONS_OF_A_FORMAT
        self._is_fresh = feed.source != source.name or feed.generation < first
        self._generation = max(feed.generation, first) + 1
        self._newest = None if self._is_fresh else feed.newest
        self._seen: set[str] = set()
        self._warnings: list[FeedWarning] = []
        self._concerned: set[str] = set()
        self._read = self._changed = self._removed = 0

    async def run(self) -> tuple[Synced, SyncResult]:
        try:
            if await self._take_news():
                return await self._done("delta", self._feed.etag)
            return await self._take_everything()
        finally:
            if self._concerned:
                await asyncio.shield(self._db.transact(request_scans, self._concerned))

    async def _take_news(self) -> bool:
        """False where everything has to be read instead."""
        since = moment(self._newest or "")
        if since is None or self._generation % _EVERYTHING_EACH == 0:
            return False
        ids = await self._source.changed_since(self._ecosystem, since - _OVERLAP, _MAX_NEWS)
        if ids is None:
            return False
        try:
            await self._take(self._source.records(self._ecosystem, ids), len(ids))
        except SourceNotFound:
            return False
        return True

    async def _take_everything(self) -> tuple[Synced, SyncResult]:
        known_mark = None if self._is_fresh else self._feed.etag
        try:
            async with self._source.everything(self._ecosystem, known_mark) as everything:
                if everything.batches is None:
                    return await self._done("unchanged", everything.mark)
                await self._take_all(everything, everything.batches)
                return await self._done("full", everything.mark)
        except SourceNotFound as error:
            return await self._find_nothing(str(error))

    async def _take_all(self, everything: Everything, batches: AsyncIterator[list[Piece]]) -> None:
        self._seen.clear()
        self._warnings.clear()
        self._read = 0
        await self._take(batches, everything.total)
        if self._read and len(self._warnings) == self._read:
            first = self._warnings[0]
            raise SourceError(
                f"none of its {self._read} records could be read; {first.path}: {first.reason}"
            )
        if not self._seen:
            raise SourceNotFound(f"{self._source.name} holds no records about {self._ecosystem}")
        await self._remove_unseen()

    async def _find_nothing(self, reason: str) -> tuple[Synced, SyncResult]:
        """No fault, unless something was there before, or the whole address is a wrong one."""
        if not self._is_fresh and self._feed.records:
            raise SourceError(f"{reason}; what it held before stays in use")
        if "://" in self._source.name:
            raise SourceError(
                f"{reason}; AGENTJOBS_ADVISORIES_ECOSYSTEMS names the ecosystems to ask for"
            )
        await self._remove_unseen()
        self._warnings.append(FeedWarning(self._ecosystem, reason))
        return await self._done("full", None)

    async def _take(self, batches: AsyncIterator[list[Piece]], total: int | None) -> None:
        async for pieces in batches:
            await self._store(pieces)
            self._read += len(pieces)
            self._note(self._read, total)

    async def _store(self, pieces: Sequence[Piece]) -> None:
        looked = await asyncio.to_thread(look, pieces)
        known = await rows.known_states(self._db, [head.id for head in looked.heads])
        batch = await asyncio.to_thread(read, looked, known, self._ecosystem)
        self._seen |= batch.seen
        self._warnings += batch.warnings
        self._newest = newest([head.modified for head in looked.heads], self._newest)
        await self._write(batch.changed, batch.gone)

    async def _write(self, changed: Sequence[Advisory], gone: Sequence[str]) -> None:
        self._changed += len(changed)
        self._removed += len(gone)
        for start in range(0, max(len(changed), len(gone)), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            promised = frozenset(self._concerned)
            self._concerned |= await self._db.transact(
                _write, self._ecosystem, self._generation, changed[some], gone[some], promised
            )

    async def _remove_unseen(self) -> None:
        after = ""
        while ids := await rows.ids_of_feed(self._db, self._ecosystem, after, 20 * BATCH_RECORDS):
            after = ids[-1]
            await self._write([], [one for one in ids if one not in self._seen])

    async def _done(
        self, kind: Literal["full", "delta", "unchanged"], mark: str | None
    ) -> tuple[Synced, SyncResult]:
        records = await rows.count_of(self._db, self._ecosystem)
        # What was left out of the archive is still left out, unless it came since.
        older = () if kind == "full" else self._feed.warnings
        kept = [one for one in older if id_of_path(one.path) not in self._seen]
        warnings = (*self._warnings, *kept)
        synced = Synced(
            source=self._source.name,
            newest=self._newest,
            etag=mark,
            records=records,
            generation=self._generation,
            warnings=warnings,
        )
        return synced, SyncResult(
            ecosystem=self._ecosystem,
            kind=kind,
            changed=self._changed,
            removed=self._removed,
            records=records,
            warnings=warnings,
            seconds=round(time.monotonic() - self._begun, 3),
        )


async def configure_feeds(db: Database, ecosystems: Sequence[str], source: str) -> None:
    """What is not wanted any more goes, with its records."""
    for ecosystem in await ensure_feeds(db, ecosystems, source):
        while ids := await rows.ids_of_feed(db, ecosystem, "", BATCH_RECORDS):
            await db.transact(request_scans, await db.transact(rows.remove, ids))
        await delete_feed(db, ecosystem)


async def _write(
    tx: Transaction,
    feed: str,
    generation: int,
    changed: Sequence[Advisory],
    gone: Sequence[str],
    promised: frozenset[str],
) -> set[str]:
    concerned = await rows.put(tx, feed, generation, changed) if changed else set()
    concerned |= await rows.remove(tx, gone) if gone else set()
    await request_scans(tx, concerned - promised, in_ms=_SCAN_AFTER_CRASH_MS)
    return concerned
