"""A job continues from what an earlier attempt has pushed."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.results.run_records import record_verification
from agentjobs.store.opening import open_database
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Released
from agentjobs_runtime.protocol.verification import Verification
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import build_catalog
from tests.acceptance import test_follow_ups
from tests.acceptance.test_follow_ups import (
    Setup,
    branch_of,
    clone_of,
    commit,
    follow_up_on,
    jobs_that_committed,
    paused_worker,
)
from tests.support.jobs import claim_job
from tests.support.service import Service, StartService, StartWorker, connected, git, pull_requests

setup = test_follow_ups.setup


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_branch_pushed_by_a_drained_attempt_becomes_the_pull_request(
    start: StartService, start_worker: StartWorker, database_url: str, tmp_path: Path
) -> None:
    serve = start("serve")
    api = connected(serve, tmp_path)
    job_id = api.create("acme/shop", "sleepy")
    asyncio.run(attempt_until_pushed(database_url, serve, tmp_path))
    worker = start_worker(serve)
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
        await record_verification(db, job, failing)
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


def test_a_follow_up_adopts_the_commit_that_its_lost_attempt_pushed(
    setup: Setup, tmp_path: Path
) -> None:
    api = setup.api
    first = api.finish("acme/shop", "edit")
    clone = clone_of(setup.serve, setup.key, tmp_path / "clone")
    with paused_worker(setup):
        follow_up = follow_up_on(api, first["job_id"])
        asyncio.run(follow_up_until_pushed(setup, clone))
    second = api.wait_status(follow_up, "completed", "failed")
    assert second["status"] == "completed", second
    assert "adopted" in api.log(follow_up)
    assert second["pr_url"] == first["pr_url"]
    branch = branch_of(first)
    assert jobs_that_committed(clone, branch) == [first["job_id"], follow_up]
    # A later commit by a person stays the head of the pull request.
    head = git(clone, "rev-parse", f"origin/{branch}").strip()
    assert git(clone, "log", "-1", "--format=%s", head).strip() == "By a person"
    assert head in setup.serve.admin("pulls", "list", "--json")


async def follow_up_until_pushed(setup: Setup, clone: Path) -> None:
    """Do what a worker does up to the push, release the job, and push a commit by a person."""
    settings = load({"AGENTJOBS_DATA_DIR": str(setup.serve.data_dir)})
    db = await open_database(setup.url, migrate=False)
    try:
        context = JobsContext(db, settings, build_catalog(settings))
        job = await claim_job(context, "wrk_lost", ["edit"])
        assert job is not None
        await start_job(db, job, "0" * 40)
        await asyncio.to_thread(push_as, job, setup.serve, clone)
        assert await finish_job(db, job, Released())
    finally:
        await db.close()


def push_as(job: ClaimedJob, serve: Service, clone: Path) -> None:
    """Push with the job's credential, which is valid for the branch of the earlier job."""
    host = serve.root_url.removeprefix("http://")
    address = f"http://job:{job.credential}@{host}/git/default/{job.repo}.git"
    git(clone, "checkout", "--quiet", job.branch)
    commit(clone, f"Found again\n\nAs it was.\n\nJob: {job.id}\nAgent: {job.agent}\n")
    git(clone, "push", "--quiet", address, f"HEAD:refs/heads/{job.branch}")
    commit(clone, "By a person")
    git(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/{job.branch}")
