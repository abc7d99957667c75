"""Worker tags and job limits of repositories, on both stores."""

import pytest

from agentjobs.organizations import audit
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.repos.connect import NewRepo, insert_repository
from agentjobs.repos.queries import find_repo
from agentjobs.repos.scheduling import set_scheduling
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

NAME = "acme/shop"


@pytest.fixture
async def connected(database: Database) -> Database:
    await ensure_default(database, Plans(DEFAULT_PLANS))
    owner = await find_organization(database, "default")
    repo = NewRepo("repo_x", owner.id, NAME, "", "main", "")
    await database.transact(insert_repository, repo, audit.entry("repo.connected", NAME))
    return database


async def test_values_are_set_one_by_one_and_removed(connected: Database) -> None:
    owner = await find_organization(connected, "default")
    repo = await find_repo(connected, owner.id, NAME)
    assert (repo.required_tags, repo.max_concurrent_jobs) == ((), None)
    await set_scheduling(connected, "default", NAME, tags="gpu, large")
    repo = await set_scheduling(connected, "default", NAME, max_concurrent_jobs="3")
    assert (repo.required_tags, repo.max_concurrent_jobs) == (("gpu", "large"), 3)
    repo = await set_scheduling(connected, "default", NAME, max_concurrent_jobs="none")
    assert (repo.required_tags, repo.max_concurrent_jobs) == (("gpu", "large"), None)
    repo = await set_scheduling(connected, "default", NAME, tags="none")
    assert (repo.required_tags, repo.max_concurrent_jobs) == ((), None)


async def test_only_changes_are_audited(connected: Database) -> None:
    owner = await find_organization(connected, "default")
    for _ in range(2):
        await set_scheduling(connected, "default", NAME, tags="gpu", max_concurrent_jobs="3")
    records = await list_entries(
        connected, owner.id, AuditFilter(action="repo.scheduling_set"), limit=9
    )
    assert [(each.target, each.details) for each in records] == [
        (NAME, {"required_tags": ["gpu"], "max_concurrent_jobs": 3})
    ]


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        (NAME, {"tags": "GPU"}, "invalid_tags"),
        (NAME, {"tags": "a,b,c,d,e,f,g"}, "invalid_tags"),
        (NAME, {"max_concurrent_jobs": "0"}, "invalid_limit"),
        (NAME, {"max_concurrent_jobs": "\u0663"}, "invalid_limit"),
        (NAME, {"max_concurrent_jobs": "9" * 5_000}, "invalid_limit"),
        ("acme/other", {"tags": "gpu"}, "repo_not_connected"),
    ],
)
async def test_invalid_values_are_rejected(
    connected: Database, name: str, changes: dict[str, str], code: str
) -> None:
    with pytest.raises(Problem) as refused:
        await set_scheduling(connected, "default", name, **changes)
    assert refused.value.code == code
