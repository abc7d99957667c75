"""Synchronizes one feed, incrementally or completely. Old data stays until it is replaced.

Each batch is a short transaction, because the API shares the store's writer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from agentjobs.advisories import rows
from agentjobs.advisories.feeds import DUE, Feed, FeedClaim, SyncState, delete_feed, ensure_feeds
from agentjobs.advisories.parse import id_of_path, newest, read, read_heads
from agentjobs.advisories.scans import request_ecosystem_scans
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import run_renewing
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.sources.source import (
    BATCH_RECORDS,
    FeedItem,
    FeedWarning,
    FullFeed,
    OnProgress,
    Source,
    SourceError,
    SourceNotFound,
    parse_time,
)

# Takes a few milliseconds of the shared writer.
_ROWS_AT_ONCE = 40
# With more changes, reading the archive is faster.
_MAX_CHANGES = 2_000
# Records appear in the bucket some time after their modification time.
_OVERLAP = timedelta(hours=1)
_RENEW_SECONDS = 15.0
# The list of changes lacks deletions, so every 28th synchronization is complete.
_FULL_SYNC_EVERY = 28


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
    on_progress: OnProgress = lambda _finish, _total: None,
) -> SyncResult:
    """Raises SourceError, which is stored with the feed, or ClaimLost."""
    claim = FeedClaim(db, feed)
    every_seconds = refresh_hours * 3_600
    try:
        work = _Sync(db, feed, source, on_progress).run()
        synced, result = await run_renewing(work, claim.renew, _RENEW_SECONDS, DUE.lease_ms)
    except SourceError as error:
        await db.transact(claim.fail, str(error), every_seconds)
        raise
    except asyncio.CancelledError:
        # Due for another process, because this one is stopping.
        await asyncio.shield(claim.release(0))
        raise
    await db.transact(claim.succeed, synced, every_seconds)
    # Even without changes: a registry may be reachable again or have published a fix.
    await db.transact(request_ecosystem_scans, [feed.ecosystem])
    return result


class _Sync:
    def __init__(self, db: Database, feed: Feed, source: Source, on_progress: OnProgress) -> None:
        self._db = db
        self._feed = feed
        self._ecosystem = feed.ecosystem
        self._source = source
        self._on_progress = on_progress
        self._started_at = time.monotonic()
        first = rows.FORMAT * rows.GENERATIONS_OF_A_FORMAT
        self._is_fresh = feed.source != source.name or feed.generation < first
        self._generation = max(feed.generation, first) + 1
        self._newest = None if self._is_fresh else feed.newest
        self._seen: set[str] = set()
        self._parsed: set[str] = set()
        self._warnings: list[FeedWarning] = []
        self._affected_ecosystems: set[str] = set()
        self._read = self._changed = self._removed = 0

    async def run(self) -> tuple[SyncState, SyncResult]:
        try:
            if await self._apply_changes():
                return await self._finish("delta", self._feed.etag)
            return await self._apply_full_feed()
        finally:
            # After a crash, the next synchronization of each feed does so.
            if self._affected_ecosystems:
                await asyncio.shield(
                    self._db.transact(request_ecosystem_scans, self._affected_ecosystems)
                )

    async def _apply_changes(self) -> bool:
        """False if a full synchronization is necessary."""
        since = parse_time(self._newest or "")
        if since is None or self._generation % _FULL_SYNC_EVERY == 0:
            return False
        ids = await self._source.changed_since(self._ecosystem, since - _OVERLAP, _MAX_CHANGES)
        if ids is None:
            return False
        try:
            await self._apply(self._source.records(self._ecosystem, ids), len(ids))
        except SourceNotFound:
            return False
        return True

    async def _apply_full_feed(self) -> tuple[SyncState, SyncResult]:
        known_revision = None if self._is_fresh else self._feed.etag
        try:
            async with self._source.full_feed(self._ecosystem, known_revision) as full_feed:
                if full_feed.batches is None:
                    return await self._finish("unchanged", full_feed.revision)
                await self._apply_all(full_feed, full_feed.batches)
                return await self._finish("full", full_feed.revision)
        except SourceNotFound as error:
            return await self._handle_missing(str(error))

    async def _apply_all(self, full_feed: FullFeed, batches: AsyncIterator[list[FeedItem]]) -> None:
        self._seen.clear()
        self._warnings.clear()
        self._read = 0
        await self._apply(batches, full_feed.total)
        if self._read and not self._changed and len(self._warnings) == self._read:
            first = self._warnings[0]
            raise SourceError(
                f"none of its {self._read} records could be read; {first.path}: {first.reason}"
            )
        if not self._seen:
            raise SourceNotFound(f"{self._source.name} has no records for {self._ecosystem}")
        await self._remove_unseen()

    async def _handle_missing(self, reason: str) -> tuple[SyncState, SyncResult]:
        """A missing local feed is only a warning, unless it existed before."""
        if not self._is_fresh and self._feed.records:
            raise SourceError(f"{reason}; the stored records stay in use")
        if "://" in self._source.name:
            raise SourceError(f"{reason}; AGENTJOBS_ADVISORIES_ECOSYSTEMS sets the ecosystems")
        await self._remove_unseen()
        self._warnings.append(FeedWarning(self._ecosystem, reason))
        return await self._finish("full", None)

    async def _apply(self, batches: AsyncIterator[list[FeedItem]], total: int | None) -> None:
        async for items in batches:
            await self._store(items)
            self._read += len(items)
            self._on_progress(self._read, total)

    async def _store(self, items: Sequence[FeedItem]) -> None:
        heads = await asyncio.to_thread(read_heads, items)
        known = await rows.load_states(self._db, [head.id for head in heads.heads])
        batch = await asyncio.to_thread(read, heads, known, self._ecosystem)
        self._seen |= batch.seen
        self._parsed.update(advisory.id for advisory in batch.changed)
        self._parsed.update(id_of_path(warning.path) for warning in batch.warnings)
        self._warnings += batch.warnings
        self._newest = newest([head.modified for head in heads.heads], self._newest)
        await self._write(batch.changed, batch.gone)

    async def _write(self, changed: Sequence[Advisory], gone: Sequence[str]) -> None:
        self._changed += len(changed)
        self._removed += len(gone)
        for start in range(0, max(len(changed), len(gone)), _ROWS_AT_ONCE):
            batch = slice(start, start + _ROWS_AT_ONCE)
            self._affected_ecosystems |= await self._db.transact(
                _write, self._ecosystem, self._generation, changed[batch], gone[batch]
            )

    async def _remove_unseen(self) -> None:
        after = ""
        while ids := await rows.ids_of_feed(self._db, self._ecosystem, after, 20 * BATCH_RECORDS):
            after = ids[-1]
            await self._write(
                [], [advisory_id for advisory_id in ids if advisory_id not in self._seen]
            )

    async def _finish(
        self, kind: Literal["full", "delta", "unchanged"], revision: str | None
    ) -> tuple[SyncState, SyncResult]:
        records = await rows.count_advisories(self._db, self._ecosystem)
        warnings = (*self._warnings, *self._earlier_warnings(kind))
        synced = SyncState(
            source=self._source.name,
            newest=self._newest,
            etag=revision,
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
            seconds=round(time.monotonic() - self._started_at, 3),
        )

    def _earlier_warnings(self, kind: str) -> Iterator[FeedWarning]:
        """Warnings about records that this synchronization did not parse and the feed still has."""
        for warning in self._feed.warnings:
            record_id = id_of_path(warning.path)
            is_gone = kind == "full" and record_id not in self._seen
            if record_id not in self._parsed and not is_gone:
                yield warning


async def configure_feeds(db: Database, ecosystems: Sequence[str], source: str) -> None:
    """Create feeds for the ecosystems, and delete other feeds with their records."""
    for ecosystem in await ensure_feeds(db, ecosystems, source):
        while ids := await rows.ids_of_feed(db, ecosystem, "", BATCH_RECORDS):
            await db.transact(request_ecosystem_scans, await db.transact(rows.remove, ids))
        await delete_feed(db, ecosystem)


async def _write(
    tx: Transaction, feed: str, generation: int, changed: Sequence[Advisory], gone: Sequence[str]
) -> set[str]:
    affected_ecosystems = await rows.put(tx, feed, generation, changed) if changed else set()
    return affected_ecosystems | (await rows.remove(tx, gone) if gone else set())
