"""Dependencies and their advisories, read from both stores."""

from dataclasses import replace
from typing import Any

import pytest

from agentjobs.advisories.dependency_advisories import find_advisories
from agentjobs.inventory.dependencies import (
    count_dependencies,
    find_indexed_repo,
    list_dependencies,
)
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem
from tests.support.dependencies import COMMIT, fault, package, store_findings, store_index, views
from tests.support.findings import ORGANIZATION, add_repo

REQUESTS = package("PyPI", "requests", "2.30.0")
URLLIB3 = package("PyPI", "urllib3", "1.26.0", "requests")
HOSTILE = package("npm", "100%_\\Name", "1.0.0")
RANGE = package("npm", "Übung", None)
DEPENDENCIES = [REQUESTS, URLLIB3, HOSTILE, RANGE]
FIXTURE = package("Go", "example.com/m", "1.0.0", manifest="testdata/go.mod", fixture=True)


@pytest.fixture
async def repo_id(database: Database) -> str:
    repo_id = await add_repo(database, "acme/shop", [])
    await store_index(database, repo_id, DEPENDENCIES)
    await store_findings(
        database,
        ORGANIZATION,
        repo_id,
        fault(URLLIB3, "GHSA-2", "unknown", None),
        fault(URLLIB3, "GHSA-3", "low", 2.0),
        fault(URLLIB3, "GHSA-1"),
    )
    other = await add_repo(database, "acme/other", [])
    await store_index(database, other, DEPENDENCIES[:1])
    await store_findings(database, ORGANIZATION, other, fault(REQUESTS, "GHSA-9"))
    return repo_id


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["requests", "urllib3", "100%_\\Name", "Übung"]),
    ({"limit": 2, "after": 0}, ["urllib3", "100%_\\Name"]),
    ({"after": 3}, []),
    ({"ecosystem": "npm"}, ["100%_\\Name", "Übung"]),
    ({"direct": False}, ["urllib3"]),
    ({"direct": True, "ecosystem": "PyPI"}, ["requests"]),
    ({"manifest": "PyPI.lock"}, ["requests", "urllib3"]),
    ({"manifest": "nul\0"}, []),
    ({"vulnerable": True}, ["urllib3"]),
    ({"search": " RE"}, ["requests"]),
    ({"search": "%"}, ["100%_\\Name"]),
    ({"search": "_\\n"}, ["100%_\\Name"]),
    ({"search": "Übung"}, ["Übung"]),
    # The stores would disagree about other letters, so their case matters.
    ({"search": "übung"}, []),
    ({"search": "'; --"}, []),
    ({"search": "a\0"}, []),
    ({"search": "x" * 60_000}, []),
]


async def test_dependencies_are_filtered(database: Database, repo_id: str) -> None:
    for filters, names in FILTERS:
        rows = await list_dependencies(database, repo_id, **filters)
        assert [row.name for row in rows] == names, filters


async def test_dependencies_are_read_back_as_stored(database: Database, repo_id: str) -> None:
    assert await list_dependencies(database, repo_id) == views(DEPENDENCIES)
    counts = await count_dependencies(database, repo_id)
    assert (counts.total, counts.direct) == (4, 3)
    assert list(counts.by_ecosystem.items()) == [("PyPI", 2), ("npm", 2)]
    assert (await count_dependencies(database, "repo_none")).total == 0


async def test_dependencies_of_fixtures_are_counted_and_listed_apart(
    database: Database, repo_id: str
) -> None:
    await store_index(database, repo_id, [*DEPENDENCIES, FIXTURE])
    counts = await count_dependencies(database, repo_id)
    assert (counts.total, counts.direct, counts.fixtures) == (4, 3, 1)
    assert "Go" not in counts.by_ecosystem
    everything = await list_dependencies(database, repo_id)
    assert everything == views([*DEPENDENCIES, FIXTURE])
    assert await list_dependencies(database, repo_id, fixture=True) == everything[4:]
    assert await list_dependencies(database, repo_id, fixture=False) == everything[:4]


async def test_dependencies_are_filtered_by_imports(database: Database, repo_id: str) -> None:
    used = replace(REQUESTS, imported="yes")
    unused = replace(URLLIB3, imported="no")
    await store_index(database, repo_id, [used, unused, HOSTILE])
    everything = await list_dependencies(database, repo_id)
    assert everything == views([used, unused, HOSTILE])
    for at, imported in enumerate(("yes", "no", "unknown")):
        rows = await list_dependencies(database, repo_id, imported=imported)
        assert rows == everything[at : at + 1]


async def test_each_row_has_its_advisories_worst_first(database: Database, repo_id: str) -> None:
    rows = await list_dependencies(database, repo_id)
    advisories = await find_advisories(database, repo_id, rows)
    assert list(advisories) == [1], "advisories of another repository are left out"
    worst, minor, unrated = advisories[1]
    assert (worst.id, worst.aliases, worst.score) == ("GHSA-1", ("CVE-of-GHSA-1",), 7.5)
    assert worst.fix_version == unrated.fix_version
    assert [minor.severity, unrated.severity] == ["low", "unknown"]
    assert await find_advisories(database, repo_id, rows[:1]) == {}
    assert await find_advisories(database, repo_id, []) == {}


async def test_a_repository_is_found_only_in_its_organization(
    database: Database, repo_id: str
) -> None:
    assert (await find_indexed_repo(database, ORGANIZATION, repo_id)).indexed_commit == COMMIT
    for organization, wanted_id in ((ORGANIZATION, "repo_none"), ("org_other", repo_id)):
        with pytest.raises(Problem) as caught:
            await find_indexed_repo(database, organization, wanted_id)
        assert caught.value.code == "repo_not_found"
