"""Archives and local sources of advisories, valid and hostile."""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from agentjobs.advisories import parse
from agentjobs.advisories.rows import StoredState
from agentjobs.advisories.sources import redact_source
from agentjobs.advisories.sources.download import expected_md5
from agentjobs_dependencies.advisories.sources import archive as archives
from agentjobs_dependencies.advisories.sources.archive import Archive
from agentjobs_dependencies.advisories.sources.locations import open_location
from agentjobs_dependencies.advisories.sources.source import (
    MAX_RECORD_BYTES,
    FeedItem,
    FeedWarning,
    Record,
    SourceError,
    SourceNotFound,
    batch_items,
    read_changed_ids,
)
from tests.support.osv_records import FIRST, LATER, changes, packed, record

ONE = record("GHSA-aaaa")
NO_ENTRY = b"PK\x05\x06" + bytes(18)


def items_of(data: bytes) -> list[FeedItem]:
    return list(Archive(io.BytesIO(data), "all.zip").items())


def zipped(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    return memory.getvalue()


def packed_with(method: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("packed.json")
    entry.compress_type = method
    return entry


def encrypted(data: bytes) -> bytes:
    """Sets only the encryption flag, in both headers."""
    data = data.replace(b"PK\x03\x04\x14\x00\x00\x00", b"PK\x03\x04\x14\x00\x01\x00")
    return data.replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
    )


def with_a_flipped_byte(data: bytes) -> bytes:
    at = data.index(b"GHSA-") + len("GHSA-aaaa.json") + 5
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (zipped((packed_with(zipfile.ZIP_LZMA), b"{}")), "compression method"),
        (zipped(("big.json", b" " * (MAX_RECORD_BYTES + 1))), "more than the limit for records"),
        (encrypted(zipped(("secret.json", b"{}"))), "encrypted"),
        (with_a_flipped_byte(packed([ONE])), "damaged"),
        (packed([ONE])[40:], "damaged"),
    ],
    ids=[
        *("method", "large", "encrypted", "checksum", "start cut"),
    ],
)
def test_an_unreadable_entry_is_left_out_with_a_reason(data: bytes, reason: str) -> None:
    (item,) = items_of(data)
    assert isinstance(item, FeedWarning)
    assert reason in item.reason


def test_names_and_links_of_an_archive_reach_no_file() -> None:
    link = zipfile.ZipInfo("link.json")
    link.external_attr = 0o120777 << 16
    entries = zipped(("../../etc/passwd.json", b"{}"), ("/etc/hosts.json", b"{}"), (link, b"/etc"))
    assert [item.content for item in items_of(entries) if isinstance(item, Record)] == [
        *(b"{}", b"{}", b"/etc"),
    ]


def test_other_records_of_an_archive_with_unreadable_entries_are_read() -> None:
    data = zipped(
        ("GHSA-aaaa.json", json.dumps(ONE).encode()),
        (packed_with(zipfile.ZIP_LZMA), b"{}"),
        ("README.md", b"hello"),
    )
    parsed_items = items_of(data)
    assert isinstance(parsed_items[0], Record)
    assert json.loads(parsed_items[0].content) == ONE
    assert [type(item) for item in parsed_items] == [Record, FeedWarning]


def a_huge_table() -> bytes:
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, archives._MAX_TABLE_BYTES + 1, 0, 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a valid zip"),
        (b"<html>not found</html>", "not a valid zip"),
        (packed([ONE])[:-30], "not a valid zip"),
        (a_huge_table(), "table of contents"),
    ],
    ids=["empty", "page", "cut", "table"],
)
def test_an_incomplete_archive_is_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        items_of(data)


def test_a_zip_bomb_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_SMALL_BYTES", 1024)
    bomb = zipped(*((f"{number}.json", bytes(1024**2)) for number in range(3)))
    with pytest.raises(SourceError, match="would expand to"):
        items_of(bomb)


def test_an_empty_archive_has_no_records() -> None:
    assert items_of(NO_ENTRY) == []


def a_bucket(place: Path) -> Path:
    (place / "PyPI").mkdir()
    (place / "PyPI" / "all.zip").write_bytes(packed([ONE]))
    (place / "PyPI" / "modified_id.csv").write_text(changes([ONE]))
    (place / "PyPI" / "GHSA-aaaa.json").write_text(json.dumps(ONE))
    return place


def plain_files(place: Path) -> Path:
    (place / "PyPI").mkdir()
    (place / "PyPI" / "GHSA-aaaa.json").write_text(json.dumps(ONE))
    return place


def files_without_folders(place: Path) -> Path:
    (place / "GHSA-aaaa.json").write_text(json.dumps(ONE))
    return place


def a_zip(*names: str) -> Callable[[Path], Path]:
    contents = {"all.zip": packed([ONE]), "GHSA-aaaa.json": json.dumps(ONE).encode()}

    def make(place: Path) -> Path:
        entries = [(name, contents[name.rpartition("/")[2]]) for name in names]
        (place / "source.zip").write_bytes(zipped(*entries))
        return place / "source.zip"

    return make


@pytest.mark.parametrize(
    "make",
    [
        *(a_bucket, plain_files, files_without_folders),
        *(a_zip("PyPI/all.zip"), a_zip("PyPI/GHSA-aaaa.json"), a_zip("GHSA-aaaa.json")),
        a_zip("PyPI/all.zip", "npm/GHSA-aaaa.json"),
    ],
    ids=["bucket", "files", "flat", "zip of zips", "zip of files", "all.zip", "several"],
)
def test_records_are_found_in_every_layout(make: Callable[[Path], Path], tmp_path: Path) -> None:
    place = open_location(make(tmp_path), tmp_path)
    try:
        total, items = place.items("PyPI")
        parsed_items = list(items)
        assert total == 1
        assert place.revision("PyPI") == place.revision("PyPI")
    finally:
        place.close()
    assert [json.loads(item.content) for item in parsed_items if isinstance(item, Record)] == [ONE]


@pytest.mark.parametrize("make", [a_bucket, plain_files, a_zip("npm/GHSA-aaaa.json")])
def test_a_missing_ecosystem_is_reported(make: Callable[[Path], Path], tmp_path: Path) -> None:
    place = open_location(make(tmp_path), tmp_path)
    with pytest.raises(SourceNotFound, match="nothing for Maven"):
        place.revision("Maven")
    with pytest.raises(SourceNotFound):
        place.item("Maven", "GHSA-aaaa")
    assert place.changes("Maven") is None
    place.close()


def test_a_missing_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        open_location(tmp_path / "missing", tmp_path)


def test_a_changed_file_changes_the_revision(tmp_path: Path) -> None:
    place = open_location(plain_files(tmp_path), tmp_path)
    before = place.revision("PyPI")
    (tmp_path / "PyPI" / "GHSA-bbbb.json").write_text("{}")
    assert place.revision("PyPI") != before


def test_an_unreadable_file_does_not_affect_others(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "PyPI"
    folder.mkdir()
    (folder / "GHSA-aaaa.json").write_text(json.dumps(ONE))
    (folder / "loop.json").symlink_to("loop.json")
    place = open_location(tmp_path, tmp_path)
    assert place.revision("PyPI")
    _, items = place.items("PyPI")
    good, bad = items
    assert isinstance(good, Record)
    assert isinstance(bad, FeedWarning)
    assert (bad.path, "cannot be read" in bad.reason) == ("loop.json", True)


def test_a_change_list_is_read_until_the_last_sync() -> None:
    lines = [f"{LATER},GHSA-c", "no time,GHSA-x", "", "2024-01-01T00:00:00.9Z,PyPI/GHSA-b"]
    older = ["2023-12-31T23:59:59Z,GHSA-a", f"{LATER},GHSA-never-reached"]
    since = datetime(2024, 1, 1, tzinfo=UTC)
    assert read_changed_ids(iter([*lines, *older]), since, 10) == ["GHSA-c", "GHSA-b"]
    assert read_changed_ids(iter(lines), since, 1) is None


def test_batches_are_limited_by_number_and_size() -> None:
    many = [Record(str(number), b"") for number in range(401)]
    large = [Record(str(number), bytes(4 * 1024**2)) for number in range(3)]
    assert [len(batch) for batch in batch_items(iter(many))] == [200, 200, 1]
    assert [len(batch) for batch in batch_items(iter(large))] == [2, 1]


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([("Content-MD5", "AAECAw==")], b"\x00\x01\x02\x03"),
        ([("x-goog-hash", "crc32c=n03x6A=="), ("x-goog-hash", "md5=AAECAw==")], b"\0\1\2\3"),
        ([("x-goog-hash", "crc32c=n03x6A==, md5=AAECAw==")], b"\0\1\2\3"),
        ([("Content-MD5", "no base64!")], None),
        ([("Content-MD5", "AAECAw=="), ("x-goog-stored-content-encoding", "gzip")], None),
        ([], None),
    ],
)
def test_the_checksum_is_read_from_headers(
    headers: list[tuple[str, str]], wanted: bytes | None
) -> None:
    assert expected_md5(CIMultiDictProxy(CIMultiDict(headers))) == wanted


def test_credentials_of_a_url_are_redacted() -> None:
    assert redact_source("https://me:secret@mirror.example/osv") == "https://mirror.example/osv"
    assert redact_source("/srv/osv") == "/srv/osv"


def test_a_batch_has_warnings_and_deleted_records() -> None:
    withdrawn = record("GHSA-gone", withdrawn=LATER, modified=LATER)
    elsewhere = record("GHSA-npm", ecosystem="npm")
    never_stored = record("GHSA-withdrawn", withdrawn=LATER)
    whole = [ONE, withdrawn, elsewhere, never_stored, record("GHSA-same")]
    items: list[FeedItem] = [
        *(Record(f"{entry['id']}.json", json.dumps(entry).encode()) for entry in whole),
        Record("PyPI/GHSA-broken.json", b"{" * 100_000),
        Record("nul.json", json.dumps(record("GHSA-\0")).encode()),
        Record("late.json", json.dumps(record("GHSA-late", modified="\0")).encode()),
        FeedWarning("GHSA-large.json", "it is large"),
    ]
    known = {
        "GHSA-gone": StoredState(FIRST, "PyPI", is_current_format=True),
        "GHSA-same": StoredState(FIRST, "PyPI", is_current_format=True),
    }
    batch = parse.read(parse.read_heads(items), known, "PyPI")
    assert [advisory.id for advisory in batch.changed] == ["GHSA-aaaa"]
    assert batch.gone == ("GHSA-gone",)
    assert batch.seen == {"GHSA-aaaa", "GHSA-same", "GHSA-broken", "GHSA-large", "nul", "late"}
    paths = ["GHSA-large.json", "PyPI/GHSA-broken.json", "nul.json", "late.json"]
    assert [warning.path for warning in batch.warnings] == paths


@pytest.mark.parametrize(
    ("modified", "known", "is_changed"),
    [
        (FIRST, None, True),
        (FIRST, StoredState(FIRST, "PyPI", is_current_format=True), False),
        (FIRST, StoredState(FIRST, "PyPI", is_current_format=False), True),
        (LATER, StoredState(FIRST, "npm", is_current_format=True), True),
        (FIRST, StoredState(LATER, "npm", is_current_format=True), False),
        (FIRST, StoredState(LATER, "PyPI", is_current_format=True), True),
    ],
)
def test_a_feed_replaces_its_own_records_but_not_newer_ones_of_others(
    modified: str, known: StoredState | None, is_changed: bool
) -> None:
    assert parse.is_changed(modified, known, "PyPI") is is_changed


def test_a_time_in_the_future_does_not_hide_later_changes() -> None:
    newest = parse.newest(["2999-01-01T00:00:00Z", "no time"], FIRST)
    assert newest is not None
    assert datetime.fromisoformat(newest) <= datetime.now(UTC)
    assert parse.newest([], None) is None
