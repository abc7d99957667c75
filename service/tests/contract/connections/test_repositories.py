"""Connecting repositories of a platform, on both stores; the platform is in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection, remove_connection
from agentjobs.connections.repositories import connect_repositories, list_available
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.protocol import PlatformError, RemoteRepository
from agentjobs.repos.connect import disconnect_repository
from agentjobs.repos.queries import list_repos
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.added_connections import add_connection
from tests.support.memory_platform import MemoryRepositories
from tests.support.repo_rows import SELECT

SHOP = RemoteRepository("1", "Acme/shop", "trunk")
ODD = RemoteRepository("2", "Acme/.github", "main")
NESTED = RemoteRepository("3", "acme/team/tools/cli", "main")
UNFIT = {
    "archived": RemoteRepository("4", "acme/old", "main", is_archived=True),
    "empty": RemoteRepository("5", "acme/new", ""),
    "push": RemoteRepository("6", "acme/theirs", "main", may_push=False),
    "name": RemoteRepository("7", "acme/..", "main"),
}


@dataclass
class ConnectionHarness:
    db: Database
    keys: SealingKeys
    platform: MemoryRepositories
    platforms: Platforms
    connection: Connection

    async def connect(self, *names: str) -> dict[str, str]:
        """The index status of each repository, or the code of its problem."""
        results = await connect_repositories(
            self.db, self.platforms, "acme", self.connection.name, names or None
        )
        assert all((result.repo is None) != (result.problem is None) for result in results)
        return {
            result.full_name: result.problem.code if result.problem else result.repo.index_status
            for result in results
            if result.problem or result.repo
        }

    async def names(self) -> set[str]:
        return {
            repo.full_name for repo in await list_repos(self.db, self.connection.organization_id)
        }


@pytest.fixture
async def harness(database: Database, tmp_path: Path) -> AsyncIterator[ConnectionHarness]:
    keys = SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    new = NewConnection(platform="gitlab", credential="good-token")
    connection, _ = await add_connection(database, keys, "acme", new)
    platform = MemoryRepositories([SHOP, ODD, NESTED, *UNFIT.values()])
    async with aiohttp.ClientSession() as session:
        platforms = platform.platforms(database, keys, session)
        yield ConnectionHarness(database, keys, platform, platforms, connection)


async def test_a_repository_is_connected_by_its_name_and_waits_for_its_first_fetch(
    harness: ConnectionHarness,
) -> None:
    before = now_ms()
    with harness.db.changes.listen("platforms") as changes:
        assert await harness.connect("acme/SHOP", "acme/SHOP") == {"Acme/shop": "indexing"}
        assert await changes.wait(10)
    (row,) = await harness.db.fetch_all(SELECT)
    assert (row["platform"], row["connection_id"], row["external_id"], row["default_branch"]) == (
        ("gitlab", harness.connection.id, "1", "trunk")
    )
    assert (row["head_commit"], row["index_due_at"]) == ("", None)
    assert row["sync_due_at"] >= before
    assert row["source"] == "https://gitlab.com/Acme/shop"
    (entry,) = await list_entries(
        harness.db,
        harness.connection.organization_id,
        AuditFilter(action="repo.connected"),
        limit=9,
    )
    assert (entry.target, entry.details) == ("Acme/shop", {"connection": "gitlab"})


async def test_all_connectable_repositories_are_connected_and_others_have_a_reason(
    harness: ConnectionHarness,
) -> None:
    codes = await harness.connect()
    assert [codes.pop(repository.full_name) for repository in (SHOP, ODD, NESTED)] == [
        "indexing"
    ] * 3
    assert codes.pop("acme/..") == "invalid_name"
    assert set(codes.values()) == {"repo_not_connectable"}
    assert await harness.names() == {"Acme/shop", "Acme/.github", "acme/team/tools/cli"}
    # Nothing is connected twice, not even after a rename.
    harness.platform.available[0] = RemoteRepository("1", "Acme/renamed", "trunk")
    assert (await harness.connect())["Acme/renamed"] == "repo_connected"
    assert len(await harness.names()) == 3

    listed = {
        entry.remote.full_name: entry
        for entry in await list_available(harness.db, harness.platforms, "acme", "gitlab")
    }
    assert listed["Acme/renamed"].connected_as == "Acme/shop"
    assert "archived" in (listed["acme/old"].problem or "")
    assert "empty" in (listed["acme/new"].problem or "")
    assert "push" in (listed["acme/theirs"].problem or "")
    assert [name.lower() for name in listed] == sorted(name.lower() for name in listed)


async def test_each_named_repository_has_its_own_result(harness: ConnectionHarness) -> None:
    assert await harness.connect(
        "acme/shop", "acme/none", "a/../b", "acme/old", "acme/.github"
    ) == {
        "Acme/shop": "indexing",
        "acme/none": "forge_gone",
        "a/../b": "invalid_name",
        "acme/old": "repo_not_connectable",
        "Acme/.github": "indexing",
    }
    assert "repository a/../b" not in harness.platform.requests


async def test_a_name_that_another_repository_has_is_taken_until_that_is_disconnected(
    harness: ConnectionHarness,
) -> None:
    new = NewConnection(platform="github", credential="good-token")
    await add_connection(harness.db, harness.keys, "acme", new)
    assert (
        await connect_repositories(harness.db, harness.platforms, "acme", "github", ["acme/shop"])
    )[0].repo
    assert await harness.connect("acme/shop") == {"Acme/shop": "name_taken"}
    await disconnect_repository(harness.db, "acme", "Acme/shop", also=_nothing_else)
    assert await harness.connect("acme/shop") == {"Acme/shop": "indexing"}
    # Of two concurrent requests one connects it.
    outcomes = await asyncio.gather(
        harness.connect("acme/.github"), harness.connect("acme/.github")
    )
    assert sorted(outcome["Acme/.github"] for outcome in outcomes) in (
        ["indexing", "repo_connected"],
        ["indexing", "name_taken"],
    )


async def test_an_unreachable_platform_is_reported(harness: ConnectionHarness) -> None:
    harness.platform.fault = PlatformError("GitLab is away.", "away")
    for request in (
        connect_repositories(harness.db, harness.platforms, "acme", "gitlab"),
        list_available(harness.db, harness.platforms, "acme", "gitlab"),
    ):
        with pytest.raises(Problem, match="GitLab is away") as problem:
            await request
        assert problem.value.code == "forge_unavailable"
    assert await harness.connect("acme/shop") == {"acme/shop": "forge_unavailable"}
    for organization, name in (("other", "gitlab"), ("acme", "none")):
        with pytest.raises(Problem) as problem:
            await connect_repositories(
                harness.db, harness.platforms, organization, name, ["acme/shop"]
            )
        assert problem.value.code == "forge_not_found"
    assert await harness.names() == set()


async def test_a_connection_that_is_being_removed_gets_no_repository(
    harness: ConnectionHarness,
) -> None:
    connected, removed = await asyncio.gather(
        harness.connect("acme/shop"),
        remove_connection(harness.db, "acme", "gitlab"),
        return_exceptions=True,
    )
    if isinstance(removed, Problem):
        assert (removed.code, connected) == ("forge_in_use", {"Acme/shop": "indexing"})
    else:
        assert isinstance(connected, Problem | dict)
        assert await harness.names() == set()


async def _nothing_else(tx: Transaction, repo_id: str) -> None:
    pass
