"""Synchronization of feeds, on both stores."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from agentjobs.advisories import feeds, rows, sync
from agentjobs.advisories.feeds import Feed, FeedClaim, claim_feed, list_feeds
from agentjobs.advisories.sync import SyncResult, configure_feeds, sync_claimed
from agentjobs.loops.advisory_loop import AdvisoryLoop
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import run_renewing
from agentjobs_dependencies.advisories.sources.local import LocalSource
from agentjobs_dependencies.advisories.sources.source import SourceError
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings import load
from tests.support.findings import add_repo, due_scans
from tests.support.osv_records import LATER, packed, record, write_bucket

HOURS = 6.0
FIRST, SECOND = record("GHSA-1", "one"), record("GHSA-2", "two")


class SyncHarness:
    def __init__(self, db: Database, directory: Path) -> None:
        self.db = db
        self.directory = directory

    def source(self, name: str = "osv") -> LocalSource:
        return LocalSource(self.directory / name, self.directory)

    def write(self, *records: Any, ecosystem: str = "PyPI", name: str = "osv") -> None:
        write_bucket(self.directory / name, ecosystem, records)

    async def sync(self, ecosystem: str = "PyPI", name: str = "osv") -> SyncResult:
        source = self.source(name)
        await configure_feeds(self.db, ["PyPI", "npm"], source.name)
        feed = await claim_feed(self.db, [ecosystem], even_if_not_due=True)
        assert feed is not None
        return await sync_claimed(self.db, feed, source, HOURS)

    async def advisory_ids(self) -> list[str]:
        rows = await self.db.fetch_all("SELECT id FROM advisories ORDER BY id")
        return [row["id"] for row in rows]

    async def feed(self, ecosystem: str = "PyPI") -> Feed:
        return next(feed for feed in await list_feeds(self.db) if feed.ecosystem == ecosystem)


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> SyncHarness:
    return SyncHarness(database, tmp_path)


async def test_the_first_sync_is_complete_and_later_ones_are_incremental(
    harness: SyncHarness,
) -> None:
    harness.write(FIRST, SECOND)
    first = await harness.sync()
    assert (first.kind, first.changed, first.removed, first.records) == ("full", 2, 0, 2)
    repeated = await harness.sync()
    assert (repeated.kind, repeated.changed) == ("delta", 0)
    # The archive differs from the change list, which shows that it is not read.
    harness.write(record("GHSA-1", "one", "3.0", modified=LATER), record("GHSA-3", modified=LATER))
    (harness.directory / "osv" / "PyPI" / "all.zip").write_bytes(b"broken")
    later = await harness.sync()
    assert (later.kind, later.changed, later.records) == ("delta", 2, 3)
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-2", "GHSA-3"]
    feed = await harness.feed()
    assert (feed.records, feed.error, feed.failures) == (3, None, 0)
    assert (feed.newest or "").startswith("2024-02-01T00:00:00.5")


async def test_without_a_change_list_an_unchanged_archive_is_not_read_again(
    harness: SyncHarness,
) -> None:
    harness.write(FIRST)
    (harness.directory / "osv" / "PyPI" / "modified_id.csv").unlink()
    assert (await harness.sync()).kind == "full"
    assert (await harness.sync()).kind == "unchanged"
    (harness.directory / "osv" / "PyPI" / "all.zip").write_bytes(packed([FIRST, SECOND]))
    changed = await harness.sync()
    assert (changed.kind, changed.changed) == ("full", 1)


async def test_a_full_sync_deletes_missing_records_and_keeps_broken_ones(
    harness: SyncHarness,
) -> None:
    harness.write(FIRST, SECOND, record("GHSA-3"), record("GHSA-4"))
    await harness.sync()
    withdrawn = record("GHSA-3", withdrawn=LATER, modified=LATER)
    archive = packed([FIRST, withdrawn], **{"GHSA-4.json": b"{broken"})
    (harness.directory / "osv" / "PyPI" / "modified_id.csv").unlink()
    (harness.directory / "osv" / "PyPI" / "all.zip").write_bytes(archive)
    result = await harness.sync()
    assert (result.changed, result.removed) == (0, 2)
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-4"]
    (warning,) = (await harness.feed()).warnings
    assert warning.path == "GHSA-4.json"
    assert "OSV" in warning.reason


async def test_a_warning_stays_until_its_record_is_valid(harness: SyncHarness) -> None:
    harness.write(FIRST)
    archive = packed([FIRST], **{"GHSA-4.json": b"{broken"})
    (harness.directory / "osv" / "PyPI" / "all.zip").write_bytes(archive)
    assert len((await harness.sync()).warnings) == 1
    assert len((await harness.sync()).warnings) == 1
    harness.write(FIRST, record("GHSA-4", modified=LATER))
    assert ((await harness.sync()).kind, (await harness.feed()).warnings) == ("delta", ())


@pytest.mark.parametrize("damage", ["cut", "nothing", "page", "no records", "gone"])
async def test_a_broken_source_leaves_the_old_data_in_use(
    harness: SyncHarness, damage: str
) -> None:
    harness.write(FIRST, SECOND)
    await harness.sync()
    folder = harness.directory / "osv" / "PyPI"
    for path in folder.iterdir():
        path.unlink()
    data = {
        "cut": packed([FIRST])[:-10],
        "nothing": packed([]),
        "page": b"<html>",
        "no records": packed([], **{"a.json": b"[]", "b.json": b"null"}),
    }
    if damage in data:
        (folder / "all.zip").write_bytes(data[damage])
    with pytest.raises(SourceError):
        await harness.sync()
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-2"]
    feed = await harness.feed()
    assert feed.error
    assert (feed.failures, feed.records) == (1, 2)
    assert await claim_feed(harness.db, ["PyPI"]) is None, "the feed waits before the next attempt"
    harness.write(FIRST)
    assert (await harness.sync()).kind == "delta"
    assert (await harness.feed()).error is None


async def test_an_ecosystem_missing_from_a_directory_is_not_a_failure(harness: SyncHarness) -> None:
    harness.write(FIRST)
    result = await harness.sync("npm")
    assert (result.records, result.changed) == (0, 0)
    assert "nothing for npm" in result.warnings[0].reason


async def test_another_source_replaces_the_records_of_the_first(harness: SyncHarness) -> None:
    harness.write(FIRST, SECOND)
    harness.write(SECOND, name="mirror")
    await harness.sync()
    await configure_feeds(harness.db, ["PyPI"], harness.source("mirror").name)
    assert await claim_feed(harness.db, ["PyPI"]) is not None, "the feed is due at once"
    await harness.db.transact(_expire)
    result = await harness.sync(name="mirror")
    assert (result.kind, result.removed) == ("full", 1)
    assert await harness.advisory_ids() == ["GHSA-2"]
    assert (await harness.feed()).source == harness.source("mirror").name


async def test_an_ecosystem_that_is_no_longer_configured_is_deleted(harness: SyncHarness) -> None:
    harness.write(FIRST)
    harness.write(record("GHSA-5", ecosystem="npm"), ecosystem="npm")
    await harness.sync()
    await harness.sync("npm")
    await configure_feeds(harness.db, ["npm"], harness.source().name)
    assert await harness.advisory_ids() == ["GHSA-5"]
    assert [feed.ecosystem for feed in await list_feeds(harness.db)] == ["npm"]


async def test_a_record_of_two_ecosystems_is_deleted_only_with_its_own_feed(
    harness: SyncHarness,
) -> None:
    both = record("GHSA-7")
    both["affected"] += record("GHSA-7", ecosystem="npm")["affected"]
    harness.write(both)
    harness.write(both, record("GHSA-8", ecosystem="npm"), ecosystem="npm")
    await harness.sync()
    assert (await harness.sync("npm")).changed == 1
    harness.write(record("GHSA-8", ecosystem="npm"), ecosystem="npm")
    (harness.directory / "osv" / "npm" / "modified_id.csv").unlink()
    assert (await harness.sync("npm")).removed == 0
    assert await harness.advisory_ids() == ["GHSA-7", "GHSA-8"]


async def test_a_regular_full_sync_detects_deletions(
    harness: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write(FIRST, SECOND)
    await harness.sync()
    harness.write(FIRST)
    assert (await harness.sync()).removed == 0
    monkeypatch.setattr(sync, "_FULL_SYNC_EVERY", 1)
    result = await harness.sync()
    assert (result.kind, result.removed) == ("full", 1)


async def test_a_change_list_with_missing_records_is_not_used(harness: SyncHarness) -> None:
    harness.write(FIRST)
    await harness.sync()
    harness.write(FIRST, record("GHSA-3", modified=LATER))
    (harness.directory / "osv" / "PyPI" / "GHSA-3.json").unlink()
    result = await harness.sync()
    assert (result.kind, result.changed) == ("full", 1)


async def test_records_of_an_older_format_are_rewritten(
    harness: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write(FIRST)
    await harness.sync()
    monkeypatch.setattr(rows, "FORMAT", rows.FORMAT + 1)
    result = await harness.sync()
    assert (result.kind, result.changed) == ("full", 1)
    assert (await harness.sync()).changed == 0


async def test_a_feed_is_synchronized_by_one_process_at_a_time(harness: SyncHarness) -> None:
    harness.write(FIRST)
    await configure_feeds(harness.db, ["PyPI"], harness.source().name)
    own_claim = await claim_feed(harness.db, ["PyPI"])
    assert own_claim is not None
    assert await claim_feed(harness.db, ["PyPI"]) is None
    assert await claim_feed(harness.db, ["PyPI"], even_if_not_due=True) is None
    await harness.db.transact(_expire)
    other_claim = await claim_feed(harness.db, ["PyPI"], even_if_not_due=True)
    assert other_claim is not None
    # A later claim has another lease, unless a test makes both in one millisecond.
    claim = FeedClaim(harness.db, msgspec.structs.replace(own_claim, due_at=1))
    assert not await claim.renew()
    await harness.db.transact(claim.fail, "too late", 60)
    assert (await harness.feed()).error is None
    assert await FeedClaim(harness.db, other_claim).renew()


async def test_work_whose_claim_is_lost_is_cancelled() -> None:
    async def renew() -> bool:
        return False

    with pytest.raises(ClaimLost):
        await run_renewing(asyncio.Event().wait(), renew, 0.001, lease_ms=60_000)


async def test_a_stopped_process_leaves_the_feed_due(harness: SyncHarness) -> None:
    harness.write(FIRST)
    await configure_feeds(harness.db, ["PyPI"], harness.source().name)
    feed = await claim_feed(harness.db, ["PyPI"], even_if_not_due=True)
    assert feed is not None

    def stop(_done: int, _total: int | None) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await sync_claimed(harness.db, feed, harness.source(), HOURS, stop)
    assert await claim_feed(harness.db, ["PyPI"]) is not None


async def test_repositories_are_scanned_after_each_refresh_of_their_ecosystem(
    harness: SyncHarness,
) -> None:
    affected_repo_id = await add_repo(harness.db, "acme/shop", [("PyPI", "one", "1.0")])
    await add_repo(harness.db, "acme/site", [("npm", "left-pad", "1.0")])
    harness.write(FIRST)
    with harness.db.changes.listen("scan") as signal:
        await harness.sync()
        assert await signal.wait(30)
    assert await due_scans(harness.db) == [affected_repo_id]
    await harness.db.transact(_clear_due_scans)
    # No advisory is new, but a registry may be reachable again.
    await harness.sync()
    assert await due_scans(harness.db) == [affected_repo_id]
    await harness.db.transact(_clear_due_scans)
    harness.write()
    (harness.directory / "osv" / "PyPI" / "modified_id.csv").unlink()
    (harness.directory / "osv" / "PyPI" / "all.zip").write_bytes(packed([SECOND]))
    await harness.sync()
    assert await due_scans(harness.db) == [affected_repo_id]


async def test_the_loop_refreshes_due_feeds_and_logs_failures(
    harness: SyncHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harness.write(FIRST)
    harness.write(ecosystem="npm")
    (harness.directory / "osv" / "npm" / "all.zip").write_bytes(b"broken")
    settings = load(
        {
            "AGENTJOBS_DATA_DIR": str(tmp_path),
            "AGENTJOBS_ADVISORIES_SOURCE": str(tmp_path / "osv"),
            "AGENTJOBS_ADVISORIES_ECOSYSTEMS": "PyPI,npm",
        }
    )
    async with aiohttp.ClientSession() as session:
        loop = AdvisoryLoop(harness.db, settings, session)
        source = harness.source()
        await configure_feeds(harness.db, settings.advisories_ecosystems, source.name)
        assert [await loop.sync_one(source) for _ in range(3)] == [True, True, False]
    assert {feed.ecosystem: bool(feed.error) for feed in await list_feeds(harness.db)} == {
        "PyPI": False,
        "npm": True,
    }
    assert "not a valid zip" in caplog.text


async def test_without_a_source_the_loop_has_nothing_to_do(
    harness: SyncHarness, tmp_path: Path
) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    async with aiohttp.ClientSession() as session:
        await AdvisoryLoop(harness.db, settings, session).run()
    assert await feeds.list_feeds(harness.db) == []


async def _expire(tx: Transaction) -> None:
    await tx.execute("UPDATE advisory_feeds SET due_at = 1")


async def _clear_due_scans(tx: Transaction) -> None:
    await tx.execute("UPDATE scan_queue SET due_at = NULL")


async def test_an_unreadable_range_is_reported_until_its_record_changes(
    harness: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = record("GHSA-5", "five", fixed="see the announcement")
    harness.write(FIRST, unreadable)
    (warning,) = (await harness.sync()).warnings
    assert warning.path.endswith("GHSA-5.json")
    assert "fixed 'see the announcement' is not a valid version" in warning.reason
    monkeypatch.setattr(sync, "_FULL_SYNC_EVERY", 1)
    harness.write(FIRST, SECOND, unreadable)
    assert (await harness.sync()).warnings == (warning,)
    harness.write(FIRST, SECOND, record("GHSA-5", "five", modified=LATER))
    assert (await harness.sync()).warnings == ()
