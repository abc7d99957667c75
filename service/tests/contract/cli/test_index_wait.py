"""`repos connect --wait` ends when the repository is ready, or cannot become so."""

import asyncio

import pytest

from agentjobs.cli.repos import index_wait
from agentjobs.cli.repos.index_wait import wait_for_index
from agentjobs.fleet.processes import SILENT_MS, ProcessInfo, record_heartbeat
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.jobs import insert_repo
from tests.support.repo_rows import write_repos

NAME = "acme/shop"


@pytest.fixture
async def repo(database: Database, monkeypatch: pytest.MonkeyPatch) -> RepoView:
    monkeypatch.setattr(index_wait, "_POLL_SECONDS", 0.01)
    await ensure_default(database, Plans(DEFAULT_PLANS))
    owner = await find_organization(database, "default")
    await database.transact(insert_repo, owner.id, NAME, "indexing")
    return await find_repo(database, owner.id, NAME)


async def run_service(db: Database, problem: str | None = None) -> None:
    await record_heartbeat(db, ProcessInfo("prc_a", "up", "a", "1.0", "same", problem))


async def change(db: Database, statement: str) -> None:
    async def update(tx: Transaction) -> None:
        await tx.execute(statement)

    await db.transact(update)


@pytest.mark.parametrize(
    ("change_of", "outcome"),
    [
        ("index_status = 'ready', line_count = 7", ("ready", None)),
        ("index_error = 'It is too large.'", ("indexing", "It is too large.")),
    ],
)
async def test_it_ends_when_the_index_is_ready_or_has_failed(database, repo, change_of, outcome):
    await run_service(database)
    waiting = asyncio.create_task(wait_for_index(database, repo))
    await asyncio.sleep(0)
    assert not waiting.done()
    await write_repos(database, change_of)
    result = await waiting
    assert (result.index_status, result.index_error) == outcome


async def test_it_ends_when_the_repository_is_disconnected(database, repo):
    await run_service(database)
    await change(database, "UPDATE repos SET disconnected_at = 1")
    with pytest.raises(Problem, match="disconnected meanwhile"):
        await wait_for_index(database, repo)


@pytest.mark.parametrize("state", ["never started", "killed", "without repositories"])
async def test_without_a_service_it_does_not_wait(database, repo, state):
    if state != "never started":
        await run_service(database, "no directory" if state == "without repositories" else None)
    if state == "killed":
        await change(database, f"UPDATE processes SET heartbeat_at = heartbeat_at - {SILENT_MS}")
    with pytest.raises(Problem, match="start `agentjobs up`"):
        await wait_for_index(database, repo)
