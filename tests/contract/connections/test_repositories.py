"""Connecting repositories that a platform keeps, on both stores; the platform is a table."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from agentjobs.clock import now_ms
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection, add_connection, remove_connection
from agentjobs.connections.repositories import connect_repositories, list_available
from agentjobs.forges.connection import Connection
from agentjobs.forges.protocol import ForgeError, RemoteRepository
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.repos.connect import disconnect_repository
from agentjobs.repos.queries import list_repos
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database, Transaction
from tests.support.memory_platform import MemoryRepositories

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
class House:
    db: Database
    keys: SealingKeys
    table: MemoryRepositories
    platforms: Platforms
    connection: Connection

    async def connect(self, *names: str) -> dict[str, str]:
        """What became of each: its status, or the code of the problem."""
        found = await connect_repositories(
            self.db, self.platforms, "acme", self.connection.name, names or None
        )
        assert all((one.repo is None) != (one.problem is None) for one in found)
        return {
            one.full_name: one.problem.code if one.problem else one.repo.index_status
            for one in found
            if one.problem or one.repo
        }

    async def names(self) -> set[str]:
        return {
            repo.full_name for repo in await list_repos(self.db, self.connection.organization_id)
        }


@pytest.fixture
async def house(database: Database, tmp_path: Path) -> AsyncIterator[House]:
    keys = SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    new = NewConnection(platform="gitlab", credential="good-token")
    connection, _ = await add_connection(database, keys, "acme", new)
    table = MemoryRepositories([SHOP, ODD, NESTED, *UNFIT.values()])
    async with aiohttp.ClientSession() as session:
        platforms = table.platforms(database, keys, session)
        yield House(database, keys, table, platforms, connection)


async def test_a_repository_is_connected_by_its_name_and_waits_for_its_first_fetch(
    house: House,
) -> None:
    before = now_ms()
    with house.db.changes.listen("forges") as told:
        assert await house.connect("acme/SHOP", "acme/SHOP") == {"Acme/shop": "indexing"}
        assert await told.wait(10)
    (row,) = await house.db.fetch_all("SELECT * FROM repos")
    assert (row["platform"], row["connection_id"], row["external_id"], row["default_branch"]) == (
        ("gitlab", house.connection.id, "1", "trunk")
    )
    assert (row["head_commit"], row["index_due_at"]) == ("", None)
    assert row["sync_due_at"] >= before
    assert row["source"] == "https://gitlab.com/Acme/shop"
    (entry,) = await list_entries(
        house.db,
        house.connection.organization_id,
        AuditFilter(action="repo.connected"),
        limit=9,
    )
    assert (entry.target, entry.details) == ("Acme/shop", {"connection": "gitlab"})


async def test_all_connectable_repositories_are_connected_and_others_have_a_reason(
    house: House,
) -> None:
    codes = await house.connect()
    assert [codes.pop(one.full_name) for one in (SHOP, ODD, NESTED)] == ["indexing"] * 3
    assert codes.pop("acme/..") == "invalid_name"
    assert set(codes.values()) == {"repo_not_connectable"}
    assert await house.names() == {"Acme/shop", "Acme/.github", "acme/team/tools/cli"}
    # Again, nothing is connected twice, also under another name.
    house.table.seen[0] = RemoteRepository("1", "Acme/renamed", "trunk")
    assert (await house.connect())["Acme/renamed"] == "repo_connected"
    assert len(await house.names()) == 3

    seen = {
        one.seen.full_name: one
        for one in await list_available(house.db, house.platforms, "acme", "gitlab")
    }
    assert seen["Acme/renamed"].connected_as == "Acme/shop"
    assert "archived" in (seen["acme/old"].problem or "")
    assert "empty" in (seen["acme/new"].problem or "")
    assert "push" in (seen["acme/theirs"].problem or "")
    assert [one.lower() for one in seen] == sorted(one.lower() for one in seen)


async def test_each_named_repository_has_its_own_result(house: House) -> None:
    assert await house.connect("acme/shop", "acme/none", "a/../b", "acme/old", "acme/.github") == {
        "Acme/shop": "indexing",
        "acme/none": "forge_gone",
        "a/../b": "invalid_name",
        "acme/old": "repo_not_connectable",
        "Acme/.github": "indexing",
    }
    assert "repository a/../b" not in house.table.asked


async def test_a_name_that_another_repository_has_is_taken_until_that_is_disconnected(
    house: House,
) -> None:
    new = NewConnection(platform="github", credential="good-token")
    await add_connection(house.db, house.keys, "acme", new)
    assert (await connect_repositories(house.db, house.platforms, "acme", "github", ["acme/shop"]))[
        0
    ].repo
    assert await house.connect("acme/shop") == {"Acme/shop": "name_taken"}
    await disconnect_repository(house.db, "acme", "Acme/shop", also=_nothing_else)
    assert await house.connect("acme/shop") == {"Acme/shop": "indexing"}
    # Two at once: one of them gets it.
    both = await asyncio.gather(house.connect("acme/.github"), house.connect("acme/.github"))
    assert sorted(one["Acme/.github"] for one in both) in (
        ["indexing", "repo_connected"],
        ["indexing", "name_taken"],
    )


async def test_an_unreachable_platform_is_reported(house: House) -> None:
    house.table.fault = ForgeError("GitLab is away.", "away")
    for asked in (
        connect_repositories(house.db, house.platforms, "acme", "gitlab"),
        list_available(house.db, house.platforms, "acme", "gitlab"),
    ):
        with pytest.raises(Problem, match="GitLab is away") as problem:
            await asked
        assert problem.value.code == "forge_unavailable"
    assert await house.connect("acme/shop") == {"acme/shop": "forge_unavailable"}
    for organization, name in (("other", "gitlab"), ("acme", "none")):
        with pytest.raises(Problem) as problem:
            await connect_repositories(house.db, house.platforms, organization, name, ["acme/shop"])
        assert problem.value.code == "forge_not_found"
    assert await house.names() == set()


async def test_a_connection_that_is_being_removed_gets_no_repository(house: House) -> None:
    connected, removed = await asyncio.gather(
        house.connect("acme/shop"),
        remove_connection(house.db, "acme", "gitlab"),
        return_exceptions=True,
    )
    if isinstance(removed, Problem):
        assert (removed.code, connected) == ("forge_in_use", {"Acme/shop": "indexing"})
    else:
        assert isinstance(connected, Problem | dict)
        assert await house.names() == set()


async def _nothing_else(tx: Transaction, repo_id: str) -> None:
    pass
