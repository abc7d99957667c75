"""Removing and restoring the protection of paths, on both stores."""

import asyncio

import pytest

from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.repos.protected_paths import remove_protection, restore_protection
from agentjobs.repos.queries import find_repo
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

NAME = "acme/shop"


@pytest.fixture
async def connected(database: Database) -> Database:
    await ensure_default(database, Plans(DEFAULT_PLANS))
    owner = await find_organization(database, "default")

    async def insert(tx: Transaction) -> None:
        await tx.execute(
            "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
            " head_commit, created_at)"
            " VALUES ('repo_x', :owner, :name, 'local', '', 'main', '', 1)",
            owner=owner.id,
            name=NAME,
        )

    await database.transact(insert)
    return database


async def unprotected(database: Database) -> tuple[str, ...]:
    owner = await find_organization(database, "default")
    return (await find_repo(database, owner.id, NAME)).lifted_paths


async def test_protection_is_removed_once_and_restored(connected: Database) -> None:
    assert await unprotected(connected) == ()
    await remove_protection(connected, "default", NAME, ".github/workflows/**")
    await remove_protection(connected, "default", NAME, ".github/workflows/**")
    repo = await remove_protection(connected, "default", NAME, "CODEOWNERS")
    assert repo.lifted_paths == await unprotected(connected)
    assert repo.lifted_paths == (".github/workflows/**", "CODEOWNERS")
    await restore_protection(connected, "default", NAME, ".github/workflows/**")
    assert await unprotected(connected) == ("CODEOWNERS",)


async def test_concurrent_changes_are_not_lost(connected: Database) -> None:
    patterns = [f"p{number}/**" for number in range(8)]
    await asyncio.gather(
        *(remove_protection(connected, "default", NAME, pattern) for pattern in patterns)
    )
    assert sorted(await unprotected(connected)) == patterns


@pytest.mark.parametrize(
    ("change", "name", "pattern", "code"),
    [
        (remove_protection, NAME, "../x", "invalid_pattern"),
        (remove_protection, NAME, "a\x00", "invalid_pattern"),
        (remove_protection, "acme/other", "x", "repo_not_connected"),
        (restore_protection, NAME, "x", "not_lifted"),
    ],
)
async def test_invalid_changes_are_rejected(
    connected: Database, change: object, name: str, pattern: str, code: str
) -> None:
    with pytest.raises(Problem) as caught:
        await change(connected, "default", name, pattern)  # type: ignore[operator] # one of two
    assert caught.value.code == code
