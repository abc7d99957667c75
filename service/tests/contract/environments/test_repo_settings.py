"""What admins set for the environment of a repository, on both stores."""

import pytest

from agentjobs.environments.repo_settings import (
    RepoSettings,
    load_repo_settings,
    retire,
    set_definition,
    set_trusted_branches,
)
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.repos.queries import find_repo
from agentjobs.store.database import Database
from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.problems import Problem
from tests.support.jobs import JobHarness

NAME = "acme/shop"
DEFINITION = EnvironmentDefinition(
    image="r.test/build:12",
    cache=(),
    variables={"A": "1"},
    services=(ServiceDefinition(name="db", image="postgres:17"),),
)


class Shop:
    """The repository acme/shop."""

    def __init__(self, db: Database, organization_id: str, repo_id: str) -> None:
        self.db = db
        self.organization_id = organization_id
        self.repo_id = repo_id

    async def define(self, definition: EnvironmentDefinition | None) -> None:
        await set_definition(self.db, self.organization_id, self.repo_id, NAME, definition)

    async def trust(self, *branches: str) -> tuple[str, ...]:
        return await set_trusted_branches(
            self.db, self.organization_id, self.repo_id, NAME, branches
        )

    async def settings(self) -> RepoSettings:
        return await load_repo_settings(self.db, self.repo_id)

    async def actions(self) -> list[str]:
        entries = await list_entries(self.db, self.organization_id, AuditFilter(), limit=20)
        return [each.action for each in reversed(entries) if each.action.startswith("repo.")]


@pytest.fixture
async def shop(harness: JobHarness, database: Database) -> Shop:
    caller = await harness.organization("acme")
    repo = await find_repo(database, caller.organization_id, NAME)
    return Shop(database, caller.organization_id, repo.id)


async def test_a_definition_is_set_and_removed(shop: Shop) -> None:
    assert await shop.settings() == RepoSettings()
    await shop.define(DEFINITION)
    await shop.define(DEFINITION)
    assert await shop.settings() == RepoSettings(definition=DEFINITION)
    await shop.define(None)
    assert await shop.settings() == RepoSettings()
    assert await shop.actions() == ["repo.environment_set", "repo.environment_removed"]


async def test_a_branch_that_is_no_longer_trusted_retires_the_snapshots(shop: Shop) -> None:
    assert await shop.trust("release/2", "develop", "develop") == ("develop", "release/2")
    assert await shop.settings() == RepoSettings(trusted_branches=("develop", "release/2"))
    await shop.trust("develop", "next", "release/2")
    assert (await shop.settings()).generation == 0
    await shop.trust("develop")
    assert await shop.settings() == RepoSettings(trusted_branches=("develop",), generation=1)
    assert await shop.actions() == ["repo.trusted_branches_set"] * 3


async def test_retiring_keeps_the_settings(shop: Shop) -> None:
    await shop.define(DEFINITION)
    await shop.trust("develop")
    assert await shop.db.transact(retire, shop.repo_id)
    assert await shop.settings() == RepoSettings(
        definition=DEFINITION, trusted_branches=("develop",), generation=1
    )
    assert not await shop.db.transact(retire, "repo_none")


async def test_what_is_not_a_branch_is_refused(shop: Shop, subtests: pytest.Subtests) -> None:
    for branch in ("", "a b", "-x", "a..b", "refs/heads/a\n"):
        with subtests.test(branch), pytest.raises(Problem, match="not the name of a branch"):
            await shop.trust(branch)
    with pytest.raises(Problem, match="at most 100"):
        await shop.trust(*(f"b{number}" for number in range(101)))
    assert await shop.settings() == RepoSettings()


async def test_an_unknown_repository_is_refused(shop: Shop) -> None:
    shop.repo_id = "repo_none"
    with pytest.raises(Problem, match="no longer connected"):
        await shop.define(DEFINITION)
