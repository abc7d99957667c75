"""Synchronization of feeds, on both stores."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.advisories import feeds, rows, sync
from agentjobs.advisories.feeds import Feed, FeedClaim, claim_due_feed, claim_feed, list_feeds
from agentjobs.advisories.sources.local import LocalSource
from agentjobs.advisories.sources.source import SourceError
from agentjobs.advisories.sync import SyncResult, configure_feeds, sync_claimed
from agentjobs.loops.advisory_loop import AdvisoryLoop
from agentjobs.settings import load
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import ClaimLost, run_renewing
from tests.support.findings import add_repo, due_scans
from tests.support.osv_records import LATER, packed, record, write_bucket

HOURS = 6.0
ONE, TWO = record("GHSA-1", "one"), record("GHSA-2", "two")


class House:
    def __init__(self, db: Database, place: Path) -> None:
        self.db = db
        self.place = place

    def source(self, name: str = "osv") -> LocalSource:
        return LocalSource(self.place / name, self.place)

    def write(self, *records: Any, ecosystem: str = "PyPI", name: str = "osv") -> None:
        write_bucket(self.place / name, ecosystem, records)

    async def sync(self, ecosystem: str = "PyPI", name: str = "osv") -> SyncResult:
        source = self.source(name)
        await configure_feeds(self.db, ["PyPI", "npm"], source.name)
        feed = await claim_feed(self.db, ecosystem)
        assert feed is not None
        return await sync_claimed(self.db, feed, source, HOURS)

    async def stored(self) -> list[str]:
        found = await self.db.fetch_all("SELECT id FROM advisories ORDER BY id")
        return [row["id"] for row in found]

    async def feed(self, ecosystem: str = "PyPI") -> Feed:
        return next(one for one in await list_feeds(self.db) if one.ecosystem == ecosystem)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    return House(database, tmp_path)


async def test_the_first_sync_is_complete_and_later_ones_are_incremental(
    house: House,
) -> None:
    house.write(ONE, TWO)
    first = await house.sync()
    assert (first.kind, first.changed, first.removed, first.records) == ("full", 2, 0, 2)
    again = await house.sync()
    assert (again.kind, again.changed) == ("delta", 0)
    # The archive is not looked at: what is in there is not what the list tells.
    house.write(record("GHSA-1", "one", "3.0", modified=LATER), record("GHSA-3", modified=LATER))
    (house.place / "osv" / "PyPI" / "all.zip").write_bytes(b"broken")
    later = await house.sync()
    assert (later.kind, later.changed, later.records) == ("delta", 2, 3)
    assert await house.stored() == ["GHSA-1", "GHSA-2", "GHSA-3"]
    feed = await house.feed()
    assert (feed.records, feed.error, feed.failures) == (3, None, 0)
    assert (feed.newest or "").startswith("2024-02-01T00:00:00.5")


async def test_without_a_change_list_an_unchanged_archive_is_not_read_again(
    house: House,
) -> None:
    house.write(ONE)
    (house.place / "osv" / "PyPI" / "modified_id.csv").unlink()
    assert (await house.sync()).kind == "full"
    assert (await house.sync()).kind == "unchanged"
    (house.place / "osv" / "PyPI" / "all.zip").write_bytes(packed([ONE, TWO]))
    changed = await house.sync()
    assert (changed.kind, changed.changed) == ("full", 1)


async def test_a_full_sync_deletes_missing_records_and_keeps_broken_ones(
    house: House,
) -> None:
    house.write(ONE, TWO, record("GHSA-3"), record("GHSA-4"))
    await house.sync()
    gone = record("GHSA-3", withdrawn=LATER, modified=LATER)
    archive = packed([ONE, gone], **{"GHSA-4.json": b"{broken"})
    (house.place / "osv" / "PyPI" / "modified_id.csv").unlink()
    (house.place / "osv" / "PyPI" / "all.zip").write_bytes(archive)
    result = await house.sync()
    assert (result.changed, result.removed) == (0, 2)
    assert await house.stored() == ["GHSA-1", "GHSA-4"]
    (warning,) = (await house.feed()).warnings
    assert warning.path == "GHSA-4.json"
    assert "OSV" in warning.reason


async def test_a_warning_stays_until_its_record_is_valid(house: House) -> None:
    house.write(ONE)
    archive = packed([ONE], **{"GHSA-4.json": b"{broken"})
    (house.place / "osv" / "PyPI" / "all.zip").write_bytes(archive)
    assert len((await house.sync()).warnings) == 1
    assert len((await house.sync()).warnings) == 1
    house.write(ONE, record("GHSA-4", modified=LATER))
    assert ((await house.sync()).kind, (await house.feed()).warnings) == ("delta", ())


@pytest.mark.parametrize("damage", ["cut", "nothing", "page", "no records", "gone"])
async def test_a_broken_source_leaves_the_old_data_in_use(house: House, damage: str) -> None:
    house.write(ONE, TWO)
    await house.sync()
    folder = house.place / "osv" / "PyPI"
    for path in folder.iterdir():
        path.unlink()
    data = {
        "cut": packed([ONE])[:-10],
        "nothing": packed([]),
        "page": b"<html>",
        "no records": packed([], **{"a.json": b"[]", "b.json": b"null"}),
    }
    if damage in data:
        (folder / "all.zip").write_bytes(data[damage])
    with pytest.raises(SourceError):
        await house.sync()
    assert await house.stored() == ["GHSA-1", "GHSA-2"]
    feed = await house.feed()
    assert feed.error
    assert (feed.failures, feed.records) == (1, 2)
    assert await claim_due_feed(house.db, ["PyPI"]) is None, "it waits before it tries again"
    house.write(ONE)
    assert (await house.sync()).kind == "delta"
    assert (await house.feed()).error is None


async def test_an_ecosystem_missing_from_a_directory_is_not_a_failure(house: House) -> None:
    house.write(ONE)
    result = await house.sync("npm")
    assert (result.records, result.changed) == (0, 0)
    assert "nothing for npm" in result.warnings[0].reason


async def test_another_source_replaces_the_records_of_the_first(house: House) -> None:
    house.write(ONE, TWO)
    house.write(TWO, name="mirror")
    await house.sync()
    await configure_feeds(house.db, ["PyPI"], house.source("mirror").name)
    assert await claim_due_feed(house.db, ["PyPI"]) is not None, "it is due at once"
    await house.db.transact(_expire)
    result = await house.sync(name="mirror")
    assert (result.kind, result.removed) == ("full", 1)
    assert await house.stored() == ["GHSA-2"]
    assert (await house.feed()).source == house.source("mirror").name


async def test_an_ecosystem_that_is_no_longer_configured_is_deleted(house: House) -> None:
    house.write(ONE)
    house.write(record("GHSA-5", ecosystem="npm"), ecosystem="npm")
    await house.sync()
    await house.sync("npm")
    await configure_feeds(house.db, ["npm"], house.source().name)
    assert await house.stored() == ["GHSA-5"]
    assert [feed.ecosystem for feed in await list_feeds(house.db)] == ["npm"]


async def test_a_record_of_two_ecosystems_is_deleted_only_with_its_own_feed(
    house: House,
) -> None:
    both = record("GHSA-7")
    both["affected"] += record("GHSA-7", ecosystem="npm")["affected"]
    house.write(both)
    house.write(both, record("GHSA-8", ecosystem="npm"), ecosystem="npm")
    await house.sync()
    assert (await house.sync("npm")).changed == 1
    house.write(record("GHSA-8", ecosystem="npm"), ecosystem="npm")
    (house.place / "osv" / "npm" / "modified_id.csv").unlink()
    assert (await house.sync("npm")).removed == 0
    assert await house.stored() == ["GHSA-7", "GHSA-8"]


async def test_a_regular_full_sync_detects_deletions(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write(ONE, TWO)
    await house.sync()
    house.write(ONE)
    assert (await house.sync()).removed == 0
    monkeypatch.setattr(sync, "_FULL_SYNC_EVERY", 1)
    result = await house.sync()
    assert (result.kind, result.removed) == ("full", 1)


async def test_a_change_list_with_missing_records_is_not_used(house: House) -> None:
    house.write(ONE)
    await house.sync()
    house.write(ONE, record("GHSA-3", modified=LATER))
    (house.place / "osv" / "PyPI" / "GHSA-3.json").unlink()
    result = await house.sync()
    assert (result.kind, result.changed) == ("full", 1)


async def test_records_of_an_older_format_are_rewritten(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write(ONE)
    await house.sync()
    monkeypatch.setattr(rows, "FORMAT", rows.FORMAT + 1)
    result = await house.sync()
    assert (result.kind, result.changed) == ("full", 1)
    assert (await house.sync()).changed == 0


async def test_a_feed_is_synchronized_by_one_process_at_a_time(house: House) -> None:
    house.write(ONE)
    await configure_feeds(house.db, ["PyPI"], house.source().name)
    ours = await claim_due_feed(house.db, ["PyPI"])
    assert ours is not None
    assert await claim_due_feed(house.db, ["PyPI"]) is None
    assert await claim_feed(house.db, "PyPI") is None
    await house.db.transact(_expire)
    theirs = await claim_feed(house.db, "PyPI")
    assert theirs is not None
    claim = FeedClaim(house.db, ours)
    assert not await claim.renew()
    await claim.fail("too late to tell", 60)
    assert (await house.feed()).error is None
    assert await FeedClaim(house.db, theirs).renew()


async def test_work_whose_claim_is_lost_is_cancelled() -> None:
    async def lost() -> bool:
        return False

    with pytest.raises(ClaimLost):
        await run_renewing(asyncio.Event().wait(), lost, 0.001)


async def test_a_stopped_process_leaves_the_feed_due(house: House) -> None:
    house.write(ONE)
    await configure_feeds(house.db, ["PyPI"], house.source().name)
    feed = await claim_feed(house.db, "PyPI")
    assert feed is not None

    def stop(_done: int, _total: int | None) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await sync_claimed(house.db, feed, house.source(), HOURS, stop)
    assert await claim_due_feed(house.db, ["PyPI"]) is not None


async def test_repositories_are_scanned_after_each_refresh_of_their_ecosystem(
    house: House,
) -> None:
    touched = await add_repo(house.db, "acme/shop", [("PyPI", "one", "1.0")])
    await add_repo(house.db, "acme/site", [("npm", "left-pad", "1.0")])
    house.write(ONE)
    with house.db.changes.listen("scan") as signal:
        await house.sync()
        assert await signal.wait(5)
    assert await due_scans(house.db) == [touched]
    await house.db.transact(_scanned)
    # Nothing is new, but a registry may answer again.
    await house.sync()
    assert await due_scans(house.db) == [touched]
    await house.db.transact(_scanned)
    house.write()
    (house.place / "osv" / "PyPI" / "modified_id.csv").unlink()
    (house.place / "osv" / "PyPI" / "all.zip").write_bytes(packed([TWO]))
    await house.sync()
    assert await due_scans(house.db) == [touched]


async def test_the_loop_refreshes_due_feeds_and_logs_failures(
    house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house.write(ONE)
    house.write(ecosystem="npm")
    (house.place / "osv" / "npm" / "all.zip").write_bytes(b"broken")
    settings = load(
        {
            "AGENTJOBS_DATA_DIR": str(tmp_path),
            "AGENTJOBS_ADVISORIES_SOURCE": str(tmp_path / "osv"),
            "AGENTJOBS_ADVISORIES_ECOSYSTEMS": "PyPI,npm",
        }
    )
    async with aiohttp.ClientSession() as session:
        loop = AdvisoryLoop(house.db, settings, session)
        source = house.source()
        await configure_feeds(house.db, settings.advisories_ecosystems, source.name)
        assert [await loop.sync_one(source) for _ in range(3)] == [True, True, False]
    assert {feed.ecosystem: bool(feed.error) for feed in await list_feeds(house.db)} == {
        "PyPI": False,
        "npm": True,
    }
    assert "not a valid zip" in caplog.text


async def test_without_a_source_the_loop_has_nothing_to_do(house: House, tmp_path: Path) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    async with aiohttp.ClientSession() as session:
        await AdvisoryLoop(house.db, settings, session).run()
    assert await feeds.list_feeds(house.db) == []


async def _expire(tx: Transaction) -> None:
    await tx.execute("UPDATE advisory_feeds SET due_at = 1")


async def _scanned(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET scan_due_at = NULL")
