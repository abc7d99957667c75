"""A job that ran after the backup, which knows nothing of it, is not run a second time."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.organizations.pauses import restore_statements, restored_at
from agentjobs.platforms.protocol import BranchPull, RemotePull
from agentjobs.publishing.earlier_attempt import PushedWork, find_merged_pull, find_pushed_work
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.settings import Settings
from tests.support.jobs import job_harness
from tests.support.run_fields import RunFields

BASE, HEAD = "0" * 40, "1" * 40
PULL = RemotePull(7, "Fix it", "merged", False, HEAD, "https://git.example/acme/shop/pulls/7")


class Repository:
    """A repository on a platform, with what the job did after the backup."""

    is_remote = True
    address = None

    def __init__(self, head: str | None, pull: RemotePull | None) -> None:
        self.adapter = self
        self.head, self.known = head, pull
        self.requests = 0

    async def branch_head(self) -> str | None:
        self.requests += 1
        return self.head

    async def pull_of_branch(self, *_: object) -> BranchPull | None:
        self.requests += 1
        return self.known and BranchPull(self.known.number, self.known.title, self.known.state)

    async def pull(self, *_: object) -> RemotePull | None:
        return self.known


async def a_run(db: Database) -> Any:
    harness = job_harness(db, Settings(data_dir="/nowhere"))
    await harness.job(await harness.organization())
    job = await harness.claim()
    assert not job.was_started_before
    return RunFields(db=db, job=job, log=SimpleNamespace(note=lambda _: None))


async def mark_as_restored(db: Database, at: int) -> None:
    async def work(tx: Transaction) -> None:
        for statement in restore_statements(at):
            await tx.execute(statement)

    await db.transact(work)


async def test_a_pushed_branch_and_a_merged_pull_request_are_found_after_a_restore(
    database: Database,
) -> None:
    run = await a_run(database)
    await mark_as_restored(database, now_ms() + 1000)

    repo: Any = Repository(HEAD, None)
    assert await find_pushed_work(run, repo, BASE) == PushedWork(BASE, HEAD)

    # The pull request was merged, and its branch deleted.
    repo = Repository(None, PULL)
    assert await find_pushed_work(run, repo, BASE) is None
    merged = await find_merged_pull(run, repo, BASE)
    assert merged == Completed(PULL.url, 7, HEAD, draft=False)
    (row,) = await database.fetch_all("SELECT number, url, head_branch FROM pulls")
    assert (row["number"], row["url"], row["head_branch"]) == (7, PULL.url, run.job.branch)

    repo = Repository(None, None)
    run.job = SimpleNamespace(**{**_fields(run.job), "branch": "agentjobs/another"})
    assert await find_merged_pull(run, repo, BASE) is None


@pytest.mark.parametrize("is_restored", [True, False])
async def test_a_job_that_is_newer_than_the_restore_asks_the_platform_nothing(
    database: Database, is_restored: bool
) -> None:
    if is_restored:
        await mark_as_restored(database, now_ms() - 60_000)
    assert (await restored_at(database) is not None) == is_restored
    run = await a_run_of_a_new_job(database)
    repo: Any = Repository(HEAD, PULL)
    assert await find_pushed_work(run, repo, BASE) is None
    assert await find_merged_pull(run, repo, BASE) is None
    assert repo.requests == 0


async def a_run_of_a_new_job(db: Database) -> Any:
    await db.transact(_resume)
    return await a_run(db)


async def _resume(tx: Transaction) -> None:
    await tx.execute("DELETE FROM effective_settings WHERE name = 'paused_at'")


def _fields(job: Any) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__}
