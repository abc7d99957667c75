"""Lifting protected paths of a repository and protecting them again, on both stores."""

import asyncio

import pytest

from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.problems import Problem
from agentjobs.repos.protected_paths import lift, protect
from agentjobs.repos.queries import find_repo
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database, Transaction

NAME = "acme/shop"


@pytest.fixture
async def connected(database: Database) -> Database:
    await ensure_default(database, Plans(DEFAULT_PLANS))
    owner = await find_organization(database, "default")

    async def insert(tx: Transaction) -> None:
        await tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, index_status, created_at, next_pull_number)"
            " VALUES ('repo_x', :owner, :name, 'local', '', 'main', '', 'ready', 1, 1)",
            owner=owner.id,
            name=NAME,
        )

    await database.transact(insert)
    return database


async def lifted(database: Database) -> tuple[str, ...]:
    owner = await find_organization(database, "default")
    return (await find_repo(database, owner.id, NAME)).lifted_paths


async def test_paths_are_lifted_once_and_protected_again(connected: Database) -> None:
    assert await lifted(connected) == ()
    await lift(connected, "default", NAME, ".github/workflows/**")
    await lift(connected, "default", NAME, ".github/workflows/**")
    told = await lift(connected, "default", NAME, "CODEOWNERS")
    assert told.lifted_paths == await lifted(connected)
    assert told.lifted_paths == (".github/workflows/**", "CODEOWNERS")
    await protect(connected, "default", NAME, ".github/workflows/**")
    assert await lifted(connected) == ("CODEOWNERS",)


async def test_lifts_at_the_same_time_do_not_lose_each_other(connected: Database) -> None:
    patterns = [f"p{number}/**" for number in range(8)]
    await asyncio.gather(*(lift(connected, "default", NAME, pattern) for pattern in patterns))
    assert sorted(await lifted(connected)) == patterns


@pytest.mark.parametrize(
    ("change", "name", "pattern", "code"),
    [
        (lift, NAME, "../x", "invalid_pattern"),
        (lift, NAME, "a\x00", "invalid_pattern"),
        (lift, "acme/other", "x", "repo_not_connected"),
        (protect, NAME, "x", "not_lifted"),
    ],
)
async def test_what_cannot_be_is_told(
    connected: Database, change: object, name: str, pattern: str, code: str
) -> None:
    with pytest.raises(Problem) as caught:
        await change(connected, "default", name, pattern)  # type: ignore[operator] # one of two
    assert caught.value.code == code
