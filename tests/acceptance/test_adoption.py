"""A job continues from what an earlier attempt has pushed."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.agents.catalog import build_catalog
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.outcomes import Released
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.run.checks import record_verification
from agentjobs.jobs.verification import Verification
from agentjobs.settings import load
from agentjobs.store.opening import open_database
from tests.support.jobs import claim_job
from tests.support.service import Service, StartService, connected, git, pull_requests


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_branch_pushed_by_a_drained_attempt_becomes_the_pull_request(
    start: StartService, database_url: str, tmp_path: Path
) -> None:
    serve = start("serve")
    api = connected(serve, tmp_path)
    job_id = api.create("acme/shop", "sleepy")
    asyncio.run(attempt_until_pushed(database_url, serve, tmp_path))
    worker = start("worker", data_dir="worker", AGENTJOBS_PUBLIC_URL=serve.root_url)
    job = api.wait_status(job_id, "completed", "failed")
    assert job["status"] == "completed", job
    assert "adopted" in api.log(job_id)
    page = api.http.get(job["pr_url"]).text
    assert "Found again" in page
    # The verification result of the earlier attempt still applies.
    assert "it is broken" in page
    assert job["verification"]["exit_code"] == 2
    assert "pr.review_requested" not in api.events(job_id)
    assert "found.txt" in page
    assert pull_requests(serve) == 1
    assert worker.stop() == 0
    assert serve.stop() == 0


async def attempt_until_pushed(database_url: str, serve: Service, tmp_path: Path) -> None:
    """Do what a worker does up to the push, and then release the job as if drained."""
    settings = load({"AGENTJOBS_DATA_DIR": str(serve.data_dir)})
    db = await open_database(database_url, migrate=False)
    try:
        context = JobsContext(db, settings, build_catalog(settings))
        job = await claim_job(context, "wrk_drained", ["sleepy"])
        assert job is not None
        await start_job(db, job, job.repo_head)
        failing = Verification(
            command="make test", passed=False, exit_code=2, duration_ms=7, output="it is broken"
        )
        await record_verification(db, job.id, job.fence, failing)
        await asyncio.to_thread(push_something, serve, job, tmp_path / "clone")
        assert await finish_job(db, job, Released())
    finally:
        await db.close()


def push_something(serve: Service, job: ClaimedJob, clone: Path) -> None:
    host = serve.root_url.removeprefix("http://")
    address = f"http://job:{job.credential}@{host}/git/default/{job.repo}.git"
    git(serve.data_dir, "clone", "--quiet", address, str(clone))
    (clone / "found.txt").write_text("found\n")
    git(clone, "add", "-A")
    message = f"Found again\n\nAs it was.\n\nJob: {job.id}\nAgent: {job.agent}\n"
    git(clone, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", message)
    git(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{job.branch}")
