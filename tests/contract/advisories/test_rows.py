"""Advisories in both stores: by package, by name, by text."""

from typing import Any

import pytest

from agentjobs.advisories import rows
from agentjobs.advisories.model import Advisory, parse_advisory
from agentjobs.store.database import Database
from tests.support.osv_records import CVSS_HIGH, LATER, record

GENERATION = rows.FORMAT * rows.GENERATIONS_OF_A_FORMAT + 1
PYSEC = record("PYSEC-1", "requests", aliases=["CVE-1", "GHSA-1111"])
GHSA = record("GHSA-1111", "requests", aliases=["CVE-1"], vector=CVSS_HIGH, summary="A leak")
COUSIN = record("GHSA-2222", "requests-fork", ecosystem="npm", aliases=["CVE-1", "CVE-2"])
SECOND_COUSIN = record("GO-3", "example.com/fork", ecosystem="Go", aliases=["CVE-2"])
STRANGER = record("GHSA-9999", "Zope.Interface", aliases=["CVE-9"], summary="100% of_it \\ gone")


def parsed(one: dict[str, Any]) -> Advisory:
    advisory = parse_advisory(one)
    assert advisory is not None
    return advisory


async def put(db: Database, *records: dict[str, Any], feed: str = "PyPI") -> set[str]:
    return await db.transact(rows.put, feed, GENERATION, [parsed(one) for one in records])


@pytest.fixture
async def filled(database: Database) -> Database:
    await put(database, PYSEC, GHSA, STRANGER)
    await put(database, COUSIN, feed="npm")
    await put(database, SECOND_COUSIN, feed="Go")
    return database


async def found_for(db: Database, *names: str, ecosystem: str = "PyPI") -> list[str]:
    return sorted(one.id for one in await rows.advisories_for(db, ecosystem, names))


async def searched(db: Database, text: str, **options: Any) -> list[str]:
    return [one.id for one in await rows.search(db, text, **options)]


async def test_advisories_of_a_package_include_related_records(
    filled: Database,
) -> None:
    assert await found_for(filled, "requests") == ["GHSA-1111", "GHSA-2222", "GO-3", "PYSEC-1"]
    assert await found_for(filled, "zope-interface", "unknown") == ["GHSA-9999"]
    assert await found_for(filled, "requests", ecosystem="RubyGems") == []
    assert await found_for(filled) == []
    (same,) = await rows.advisories_for(filled, "PyPI", ["zope-interface"])
    assert same == parsed(STRANGER)


async def test_storing_a_record_again_replaces_it(filled: Database) -> None:
    moved = record("GHSA-9999", "left-pad", ecosystem="npm", modified=LATER)
    assert await put(filled, moved, moved, feed="npm") == {"PyPI", "npm"}
    assert await found_for(filled, "zope-interface") == []
    assert await found_for(filled, "left-pad", ecosystem="npm") == ["GHSA-9999"]
    assert await searched(filled, "CVE-9") == []
    known = await rows.load_states(filled, ["GHSA-9999", "GHSA-none"])
    assert known == {"GHSA-9999": rows.StoredState(LATER, "npm", is_current_format=True)}


async def test_deleted_records_are_not_found(filled: Database) -> None:
    assert await filled.transact(rows.remove, ["GHSA-1111", "PYSEC-1", "GHSA-none"]) == {"PyPI"}
    assert await found_for(filled, "requests") == []
    assert await searched(filled, "CVE-1") == ["GHSA-2222"]
    assert await rows.ids_of_feed(filled, "PyPI", "", 10) == ["GHSA-9999"]
    assert await rows.count_advisories(filled, "PyPI") == 1


async def test_a_search_matches_ids_packages_and_summaries(filled: Database) -> None:
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
    assert {text: await searched(filled, text) for text in cases} == cases


async def test_a_search_is_limited_and_filtered_by_ecosystem(filled: Database) -> None:
    assert await searched(filled, "requests", ecosystem="npm") == ["GHSA-2222"]
    assert await searched(filled, "requests", limit=2) == ["GHSA-1111", "PYSEC-1"]


async def test_names_too_long_for_an_index_are_left_out(database: Database) -> None:
    await put(database, record("GHSA-1", "x" * 5_000), record("GHSA-2", "nul\0"), GHSA)
    assert await found_for(database, "requests", "x" * 5_000) == ["GHSA-1111"]
