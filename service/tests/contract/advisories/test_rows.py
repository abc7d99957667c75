"""Advisories are found by package, by name and by text, on both stores."""

from typing import Any

import msgspec
import pytest

from agentjobs.advisories import rows
from agentjobs.store.database import Database
from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from agentjobs_dependencies.advisories.texts import AdvisoryText
from tests.support.osv_records import CVSS_HIGH, LATER, record

GENERATION = rows.FORMAT * rows.GENERATIONS_OF_A_FORMAT + 1
PYSEC = record("PYSEC-1", "requests", aliases=["CVE-1", "GHSA-1111"])
GHSA = record("GHSA-1111", "requests", aliases=["CVE-1"], vector=CVSS_HIGH, summary="A leak")
RELATED = record("GHSA-2222", "requests-fork", ecosystem="npm", aliases=["CVE-1", "CVE-2"])
INDIRECTLY_RELATED = record("GO-3", "example.com/fork", ecosystem="Go", aliases=["CVE-2"])
UNRELATED = record("GHSA-9999", "Zope.Interface", aliases=["CVE-9"], summary="100% of_it \\ gone")


def parse(entry: dict[str, Any]) -> Advisory:
    advisory = parse_advisory(entry)
    assert advisory is not None
    return advisory


async def put(db: Database, *records: dict[str, Any], feed: str = "PyPI") -> set[str]:
    return await db.transact(rows.put, feed, GENERATION, [parse(entry) for entry in records])


@pytest.fixture
async def db(database: Database) -> Database:
    await put(database, PYSEC, GHSA, UNRELATED)
    await put(database, RELATED, feed="npm")
    await put(database, INDIRECTLY_RELATED, feed="Go")
    return database


async def ids_for(db: Database, *names: str, ecosystem: str = "PyPI") -> list[str]:
    return sorted(advisory.id for advisory in await rows.advisories_for(db, ecosystem, names))


async def search(db: Database, text: str, **options: Any) -> list[str]:
    return [advisory.id for advisory in await rows.search(db, text, **options)]


async def test_advisories_of_a_package_include_related_records(
    db: Database,
) -> None:
    assert await ids_for(db, "requests") == ["GHSA-1111", "GHSA-2222", "GO-3", "PYSEC-1"]
    assert await ids_for(db, "zope-interface", "unknown") == ["GHSA-9999"]
    assert await ids_for(db, "requests", ecosystem="RubyGems") == []
    assert await ids_for(db) == []
    (same,) = await rows.advisories_for(db, "PyPI", ["zope-interface"])
    assert same == parse(UNRELATED)


async def test_the_description_of_a_record_is_stored_apart(db: Database) -> None:
    await put(db, {**GHSA, "details": "It leaks."}, {**UNRELATED, "details": "It lasts."})
    await put(db, PYSEC)
    names = ["PYSEC-1", "GHSA-1111", "GHSA-0000"]
    assert await rows.load_texts(db, names) == [AdvisoryText("It leaks.")]
    assert all(
        advisory.text is msgspec.UNSET for advisory in await rows.search(db, "GHSA-1111", limit=9)
    )
    assert await search(db, "It leaks") == []
    await put(db, GHSA)
    await db.transact(rows.remove, ["GHSA-9999"])
    assert await db.fetch_all("SELECT * FROM advisory_texts") == []


async def test_storing_a_record_again_replaces_it(db: Database) -> None:
    moved = record("GHSA-9999", "left-pad", ecosystem="npm", modified=LATER)
    assert await put(db, moved, moved, feed="npm") == {"PyPI", "npm"}
    assert await ids_for(db, "zope-interface") == []
    assert await ids_for(db, "left-pad", ecosystem="npm") == ["GHSA-9999"]
    assert await search(db, "CVE-9") == []
    states = await rows.load_states(db, ["GHSA-9999", "GHSA-none"])
    assert states == {"GHSA-9999": rows.StoredState(LATER, "npm", is_current_format=True)}


async def test_deleted_records_are_not_found(db: Database) -> None:
    assert await db.transact(rows.remove, ["GHSA-1111", "PYSEC-1", "GHSA-none"]) == {"PyPI"}
    assert await ids_for(db, "requests") == []
    assert await search(db, "CVE-1") == ["GHSA-2222"]
    assert await rows.ids_of_feed(db, "PyPI", "", 10) == ["GHSA-9999"]
    assert await rows.count_advisories(db, "PyPI") == 1


async def test_a_search_matches_ids_packages_and_summaries(db: Database) -> None:
    cases = {
        "PYSEC-1": ["PYSEC-1"],
        " ghsa-1111 ": ["GHSA-1111", "PYSEC-1"],
        "cve-2": ["GHSA-2222", "GO-3"],
        "requests": ["GHSA-1111", "PYSEC-1", "GHSA-2222"],
        "zope_interface": ["GHSA-9999"],
        "a LEAK": ["GHSA-1111"],
        "100% of_it \\": ["GHSA-9999"],
        "1000 ofxit": [],
        "events": [],
    }
    assert {text: await search(db, text) for text in cases} == cases


async def test_a_search_is_limited_and_filtered_by_ecosystem(db: Database) -> None:
    assert await search(db, "requests", ecosystem="npm") == ["GHSA-2222"]
    assert await search(db, "requests", limit=2) == ["GHSA-1111", "PYSEC-1"]


async def test_names_too_long_for_an_index_are_left_out(database: Database) -> None:
    await put(database, record("GHSA-1", "x" * 5_000), record("GHSA-2", "nul\0"), GHSA)
    assert await ids_for(database, "requests", "x" * 5_000) == ["GHSA-1111"]
