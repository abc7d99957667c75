"""Finished work is kept in the store while `serve` is away."""

import asyncio
import enum
from pathlib import Path

import pytest

from agentjobs.jobs.queue.kept_work import keep_work_of_lost_claim
from agentjobs.store.database import Row
from agentjobs.store.opening import open_database
from agentjobs_runtime.protocol.outcomes import KeptWork
from tests.support.postgres import PostgresCluster
from tests.support.service import StartService, connected, git, pull_requests, wait_until

PUBLISHED = ["job.queued", "job.started", "job.completed", "pr.review_requested"]


async def fetch_job(database_url: str, job_id: str) -> Row:
    db = await open_database(database_url, migrate=False)
    try:
        row = await db.fetch_one("SELECT status, kept_at FROM jobs WHERE id = :id", id=job_id)
        assert row is not None
        return row
    finally:
        await db.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_work_finished_while_serve_is_away_is_published_by_serve_once_it_is_back(
    start: StartService, database_url: str, tmp_path: Path
) -> None:
    serve = start("serve")
    settings = {"AGENTJOBS_PUBLIC_URL": serve.root_url}
    worker = start("worker", data_dir="first", **settings)
    api = connected(serve, tmp_path)
    assert api.finish("acme/shop", "quick")["status"] == "completed"
    assert worker.stop() == 0
    job_id = api.create("acme/shop", "quick")
    assert serve.stop() == 0
    # The mirror has the base commit, so the agent runs without `serve`.
    worker = start("worker", data_dir="first", **settings)

    def is_kept() -> bool:
        row = asyncio.run(fetch_job(database_url, job_id))
        return row["kept_at"] is not None and row["status"] == "running"

    wait_until(is_kept, "the work to be kept")
    assert worker.stop() == 0

    serve = start("serve")
    api = serve.client(serve.key())
    # No worker is needed any more, and this process has neither the commit nor its base.
    job = api.wait_status(job_id, "completed", "failed", "cancelled")
    assert (job["status"], job["attempt"]) == ("completed", 1)
    phases = [(phase["attempt"], phase["phase"], phase["interruption"]) for phase in job["phases"]]
    assert phases[-3:] == [(1, "agent", None), (1, "push", None), (1, "pull_request", None)]
    assert api.log(job_id).count("the agent runs") == 1
    assert api.events(job_id) == PUBLISHED
    assert pull_requests(serve) == 2


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_work_finished_while_the_database_is_away_is_handed_over(
    start: StartService, stoppable_postgres: PostgresCluster, tmp_path: Path
) -> None:
    service = start(AGENTJOBS_LEASE_SECONDS="10")
    api = connected(service, tmp_path)
    job_ids = [api.create("acme/shop", name) for name in ("two-seconds", "two-second-report")]
    for job_id in job_ids:
        api.wait_status(job_id, "running")
    stoppable_postgres.stop()
    # The agent finishes long before the worker gives up its lease of ten seconds.
    message = "are stopped before their leases expire"
    wait_until(lambda: message in service.log(), "the lease to be lost")
    stoppable_postgres.start()
    for job_id in job_ids:
        job = api.wait_status(job_id, "completed", "failed")
        assert (job["status"], job["attempt"]) == ("completed", 1), service.log()
    assert api.log(job_ids[0]).count("the agent runs") == 1
    assert job["report_markdown"] == "All is well.\n"
    # What is done may be stored before the lost claim is noticed; otherwise the jobs run again
    # for a moment, without their agents.
    assert api.log(job_ids[1]).count("the agent ended") == 1
    for job_id in job_ids:
        events = api.events(job_id)
        assert events[:2] == PUBLISHED[:2]
        assert events.count("job.completed") == 1
        assert events.count("job.started") == events.count("job.queued")
    assert service.stop() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_kept_work_is_checked_again_before_it_is_published(
    start: StartService, database_url: str, tmp_path: Path
) -> None:
    """Whoever can write its row could otherwise publish what no agent may propose."""
    serve = start("serve")
    api = connected(serve, tmp_path)
    changes = {api.create("acme/shop", "quick"): change for change in Change}
    assert serve.stop() == 0
    works = {
        job_id: make_kept_work(tmp_path / "source", job_id, change)
        for job_id, change in changes.items()
    }
    asyncio.run(keep(database_url, works))
    service = start()
    api = service.client(service.key())
    reasons = {}
    for job_id, change in changes.items():
        job = api.wait_status(job_id, "completed", "failed")
        reasons[change] = (job["status"], (job["error"] or {}).get("message", ""))
        if change is Change.ALLOWED:
            branch = job["branch"]
    assert reasons.pop(Change.ALLOWED)[0] == "completed"
    assert {status for status, _ in reasons.values()} == {"failed"}
    assert "protected paths: .github/workflows/x.yml" in reasons[Change.PROTECTED][1]
    for change in (Change.OF_ANOTHER_JOB, Change.MERGE):
        assert "is not a commit of this job" in reasons[change][1]
    assert pull_requests(service) == 1
    # Only the tree and the text come from the worker.
    url = service.root_url.replace("http://", f"http://x:{service.key()}@")
    git(tmp_path, "clone", "-q", "--branch", branch, f"{url}/git/default/acme/shop.git", "clone")
    names = git(tmp_path / "clone", "log", "-1", "--format=%an, %cn").strip()
    assert names == "agentjobs, agentjobs"
    assert service.stop() == 0


class Change(enum.Enum):
    ALLOWED = "src/x.py"
    PROTECTED = ".github/workflows/x.yml"
    OF_ANOTHER_JOB = "y.py"
    MERGE = "z.py"


def make_kept_work(source: Path, job_id: str, change: Change) -> KeptWork:
    base = git(source, "rev-parse", "main").strip()
    git(source, "checkout", "-q", "-B", job_id, base)
    (source / change.value).parent.mkdir(parents=True, exist_ok=True)
    (source / change.value).write_text("x = 1\n")
    git(source, "add", "-A")
    tree = git(source, "write-tree").strip()
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    other = git(source, *identity, "commit-tree", tree, "-p", base, "-m", "Other").strip()
    parents = ("-p", base, *(("-p", other) if change is Change.MERGE else ()))
    job = "job_another" if change is Change.OF_ANOTHER_JOB else job_id
    message = f"Title\n\nBody\n\nJob: {job}\nAgent: quick\n"
    commit = git(source, *identity, "commit-tree", tree, *parents, "-m", message).strip()
    git(source, "reset", "-q", "--hard", commit)
    bundle = source.with_name("work.bundle")
    git(source, "bundle", "create", "-q", str(bundle), f"main..{job_id}")
    work = KeptWork(base, commit, bundle.read_bytes())
    git(source, "checkout", "-q", "main")
    return work


async def keep(database_url: str, works: dict[str, KeptWork]) -> None:
    """As if a worker had kept the work of jobs that no worker has claimed."""
    db = await open_database(database_url, migrate=False)
    try:
        for job_id, work in works.items():
            assert await db.transact(keep_work_of_lost_claim, job_id, work)
    finally:
        await db.close()
