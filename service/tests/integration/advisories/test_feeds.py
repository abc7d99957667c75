"""Advisories over real HTTP: deltas, unchanged archives, and servers that misbehave."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agentjobs.advisories.feeds import Feed, claim_feed, list_feeds
from agentjobs.advisories.sources import download, open_source
from agentjobs.advisories.sync import SyncResult, configure_feeds, sync_claimed
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_dependencies.advisories.sources.source import SourceError
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.support.osv_records import LATER, changes, packed, record

LOOPBACK = AllowList.parse(["127.0.0.1/32"])
FIRST, SECOND = record("GHSA-1", "one"), record("GHSA-2", "two")


@dataclass
class Bucket:
    """Serves `files` by path, with an ETag, and records the requested paths."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    claimed_length: int | None = None
    requested_paths: list[str] = field(default_factory=list)

    def fill(self, *records: dict[str, Any]) -> None:
        self.files = {f"PyPI/{entry['id']}.json": json.dumps(entry).encode() for entry in records}
        self.files["PyPI/modified_id.csv"] = changes(records).encode()
        self.files["PyPI/all.zip"] = packed(records)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/osv/")
        self.requested_paths.append(path)
        if path not in self.files:
            raise web.HTTPNotFound
        body = self.files[path]
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        if request.headers.get("If-None-Match") == etag:
            raise web.HTTPNotModified
        response = web.StreamResponse(headers={"ETag": etag, **self.headers})
        if self.claimed_length is not None:
            response.content_length = self.claimed_length
        await response.prepare(request)
        await response.write(body)
        if self.claimed_length is not None and request.transport is not None:
            request.transport.close()
        return response


@pytest.fixture
async def bucket() -> AsyncIterator[Bucket]:
    bucket = Bucket()
    application = web.Application()
    application.router.add_get("/osv/{path:.*}", bucket.answer)
    application.router.add_get("/moved/{path:.*}", _redirect)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    bucket.url = f"http://127.0.0.1:{runner.addresses[0][1]}/osv"
    yield bucket
    await runner.cleanup()


async def _redirect(request: web.Request) -> web.Response:
    raise web.HTTPFound(request.path.replace("/moved/", "/osv/"))


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    database = await open_database(sqlite_url, migrate=False)
    yield database
    await database.close()


@dataclass
class FeedHarness:
    db: Database
    bucket: Bucket
    work_dir: Path

    async def sync(self, url: str = "", allowed: AllowList = LOOPBACK) -> SyncResult:
        async with new_session(allowed) as session:
            source = open_source(url or self.bucket.url, session, self.work_dir)
            await configure_feeds(self.db, ["PyPI"], source.name)
            feed = await claim_feed(self.db, ["PyPI"], even_if_not_due=True)
            assert feed is not None
            return await sync_claimed(self.db, feed, source, 6)

    async def advisory_ids(self) -> list[str]:
        rows = await self.db.fetch_all("SELECT id FROM advisories ORDER BY id")
        return [row["id"] for row in rows]

    async def feed(self) -> Feed:
        return (await list_feeds(self.db))[0]


@pytest.fixture
def harness(db: Database, bucket: Bucket, tmp_path: Path) -> FeedHarness:
    bucket.fill(FIRST, SECOND)
    return FeedHarness(db, bucket, tmp_path / "work")


async def test_later_syncs_fetch_only_changes(harness: FeedHarness) -> None:
    first = await harness.sync()
    assert (first.kind, first.changed) == ("full", 2)
    assert harness.bucket.requested_paths == ["PyPI/all.zip"]
    harness.bucket.fill(FIRST, SECOND, record("GHSA-3", modified=LATER))
    harness.bucket.requested_paths.clear()
    second = await harness.sync()
    assert (second.kind, second.changed) == ("delta", 1)
    assert "PyPI/GHSA-3.json" in harness.bucket.requested_paths
    assert "PyPI/all.zip" not in harness.bucket.requested_paths
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-2", "GHSA-3"]


async def test_only_the_needed_part_of_a_change_list_is_read(harness: FeedHarness) -> None:
    await harness.sync()
    # Reading the whole list fails.
    old = "2020-01-01T00:00:00Z,GHSA-old\n" + "x" * 10_000_000
    harness.bucket.files["PyPI/modified_id.csv"] = (changes([FIRST, SECOND]) + old).encode()
    assert (await harness.sync()).kind == "delta"
    harness.bucket.files["PyPI/modified_id.csv"] = (
        changes([FIRST, SECOND]) + "x" * 10_000_000
    ).encode()
    with pytest.raises(SourceError, match="too long"):
        await harness.sync()


async def test_an_unchanged_archive_is_not_sent_again(harness: FeedHarness) -> None:
    await harness.sync()
    del harness.bucket.files["PyPI/modified_id.csv"]
    assert (await harness.sync()).kind == "unchanged"
    harness.bucket.files["PyPI/all.zip"] = packed([FIRST])
    result = await harness.sync()
    assert (result.kind, result.removed) == ("full", 1)


async def test_the_archive_is_used_if_single_records_are_missing(harness: FeedHarness) -> None:
    await harness.sync()
    three = record("GHSA-3", modified=LATER)
    harness.bucket.fill(FIRST, SECOND, three)
    del harness.bucket.files["PyPI/GHSA-3.json"]
    result = await harness.sync()
    assert (result.kind, result.changed) == ("full", 1)


async def sync_damaged(harness: FeedHarness, damage: str) -> SourceError:
    """Damages the archive or its response and returns the error of the next sync."""
    bucket = harness.bucket
    del bucket.files["PyPI/modified_id.csv"]
    bucket.files["PyPI/all.zip"] = packed([SECOND, record("GHSA-3")])
    wrong = base64.b64encode(hashlib.md5(b"another").digest()).decode()
    if damage == "cut":
        bucket.claimed_length = len(bucket.files["PyPI/all.zip"]) + 1_000
    elif damage == "half":
        data = bucket.files["PyPI/all.zip"]
        bucket.files["PyPI/all.zip"] = data[: len(data) // 2]
    elif damage == "hash":
        bucket.headers["x-goog-hash"] = f"crc32c=n03x6A==,md5={wrong}"
    elif damage == "large":
        bucket.claimed_length = 3 * 1024**3
    elif damage == "packed":
        bucket.headers["Content-Encoding"] = "gzip"
    elif damage == "missing":
        del bucket.files["PyPI/all.zip"]
    with pytest.raises(SourceError) as caught:
        await harness.sync()
    return caught.value


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("cut", "not received completely"),
        ("half", "not a valid zip"),
        ("hash", "MD5"),
        ("large", "exceeds the size limit of archives"),
        ("packed", "compressed"),
        ("missing", "does not exist"),
    ],
)
async def test_a_bad_download_leaves_the_old_data_in_use(
    harness: FeedHarness, damage: str, reason: str
) -> None:
    await harness.sync()
    error = await sync_damaged(harness, damage)
    assert reason in str(error)
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-2"]
    feed = await harness.feed()
    assert (feed.error, feed.failures, feed.records) == (str(error), 1, 2)
    assert list(harness.work_dir.iterdir()) == []


async def test_a_matching_checksum_is_accepted(harness: FeedHarness) -> None:
    digest = hashlib.md5(harness.bucket.files["PyPI/all.zip"]).digest()
    harness.bucket.headers["Content-MD5"] = base64.b64encode(digest).decode()
    assert (await harness.sync()).changed == 2


async def test_a_large_record_is_a_warning(
    harness: FeedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.sync()
    harness.bucket.fill(FIRST, record("GHSA-3", modified=LATER))
    monkeypatch.setattr("agentjobs.advisories.sources.remote.MAX_RECORD_BYTES", 10)
    result = await harness.sync()
    assert {warning.path for warning in result.warnings} == {"GHSA-1.json", "GHSA-3.json"}
    assert await harness.advisory_ids() == ["GHSA-1", "GHSA-2"]


async def test_an_endless_archive_is_rejected(
    harness: FeedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(SourceError, match="larger than"):
        await harness.sync()


async def test_a_blocked_address_names_the_setting_that_allows_it(
    harness: FeedHarness,
) -> None:
    with pytest.raises(SourceError, match="AGENTJOBS_EGRESS_ALLOW"):
        await harness.sync(allowed=AllowList())
    assert harness.bucket.requested_paths == []


async def test_an_unreachable_or_empty_url_is_reported(harness: FeedHarness) -> None:
    with pytest.raises(SourceError, match="could not be reached"):
        await harness.sync("http://127.0.0.1:1/osv")
    with pytest.raises(SourceError, match="AGENTJOBS_ADVISORIES_ECOSYSTEMS"):
        await harness.sync(f"{harness.bucket.url}/elsewhere")


async def test_a_mirror_may_redirect_and_its_credentials_are_not_shown(
    harness: FeedHarness,
) -> None:
    url = harness.bucket.url.replace("/osv", "/moved").replace("http://", "http://me:secret@")
    assert (await harness.sync(url)).changed == 2
    assert "secret" not in (await harness.feed()).source
    with pytest.raises(SourceError) as caught:
        await harness.sync(url.replace("/moved", "/nowhere"))
    assert "secret" not in str(caught.value)
