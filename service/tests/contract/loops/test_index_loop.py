"""The order in which the index loop indexes repositories."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.inventory.indexing import DueRepo, IndexedCommit
from agentjobs.loops import index_loop
from agentjobs.loops.index_loop import IndexLoop
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.settings import load
from tests.support.jobs import JobHarness
from tests.support.repo_rows import update_repos
from tests.support.stores import until


class SlowIndexes:
    """Indexes that end when they are let go. Every organization has the repository `shop`."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.started: list[str] = []
        self.may_end = asyncio.Event()

    async def index(self, _db: Database, repo: DueRepo, *_: object) -> IndexedCommit:
        row = await self.db.fetch_one("SELECT full_name FROM repos WHERE id = :id", id=repo.id)
        assert row is not None
        self.started.append(row["full_name"])
        await self.may_end.wait()
        return IndexedCommit("", None)

    async def make_due(self, *full_names: str) -> None:
        """The first one longest; those that do not exist are copies of `shop`."""

        async def change(tx: Transaction) -> None:
            await tx.execute("UPDATE index_queue SET due_at = NULL")
            for due_at, full_name in enumerate(full_names, 1):
                await tx.execute(
                    "INSERT INTO repos (id, organization_id, full_name, platform, source,"
                    " default_branch, head_commit, created_at)"
                    " SELECT 'repo_' || :full_name, organization_id, :full_name,"
                    " 'local', '', 'main', '', 1 FROM repos"
                    " WHERE full_name = :shop",
                    full_name=full_name,
                    shop=f"{full_name.partition('/')[0]}/shop",
                )
                await update_repos(
                    tx,
                    "index_due_at = :due_at",
                    "r.full_name = :full_name",
                    full_name=full_name,
                    due_at=due_at,
                )

        await self.db.transact(change)


@pytest.fixture
async def indexes(harness: JobHarness, monkeypatch: pytest.MonkeyPatch) -> SlowIndexes:
    for name in ("many", "few"):
        await harness.organization(name)
    indexes = SlowIndexes(harness.db)
    monkeypatch.setattr(index_loop, "index_repository", indexes.index)
    await indexes.make_due("many/1", "many/2", "many/3", "few/1")
    return indexes


async def test_an_organization_with_few_repositories_does_not_wait_for_one_with_many(
    indexes: SlowIndexes, tmp_path: Path
) -> None:
    indexes.may_end.set()
    loop = IndexLoop(indexes.db, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    assert [await loop.index_one() for _ in range(5)] == [True] * 4 + [False]
    assert indexes.started == ["many/1", "few/1", "many/2", "many/3"]


async def test_two_loops_never_index_for_the_same_organization(
    indexes: SlowIndexes, tmp_path: Path
) -> None:
    settings, turns = load({"AGENTJOBS_DATA_DIR": str(tmp_path)}), FairTurns()
    loops = [IndexLoop(indexes.db, settings, turns=turns) for _ in range(2)]
    indexing = [asyncio.create_task(loop.index_one()) for loop in loops]
    await until(lambda: len(indexes.started) == 2)
    assert set(indexes.started) == {"many/1", "few/1"}
    assert not await IndexLoop(indexes.db, settings, turns=turns).index_one()
    indexes.may_end.set()
    assert all(await asyncio.gather(*indexing))
