"""Branches of finished work are deleted on their platform; git is real, the platform in memory."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agentjobs.jobs.queue.context import JobsContext
from agentjobs.platforms.protocol import BranchPull, PlatformError
from agentjobs.pulls.finished_branches import MAX_FAILURES, record_finished_branch
from agentjobs.store.database import Database
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.settings import load
from tests.support.platform_sync import SyncEnvironment, sync_environment
from tests.support.workspace import WorkspaceHarness, run_git, workspace_harness

FORGET_DELAY = "UPDATE finished_branches SET due_at = 1"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as workspace:
        yield workspace


@pytest.fixture
async def env(database: Database, tmp_path: Path, workspace: WorkspaceHarness) -> SyncEnvironment:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    env = await sync_environment(database, settings, workspace.remote)
    await env.connect()
    await env.full_sync()
    return env


async def open_pull(env: SyncEnvironment, workspace: WorkspaceHarness) -> ClaimedJob:
    """Pull request 1 of a completed job, whose branch is on the platform."""
    job = await env.start_pull(1)
    head = workspace.origin.commit_as_is(branch=job.branch)
    env.change_pull(1, head_commit=head)
    await env.finish(job, 1, head)
    await env.full_sync()
    return job


async def waiting(env: SyncEnvironment) -> int:
    rows = await env.db.fetch_all("SELECT branch FROM finished_branches")
    return len(rows)


def has_branch(workspace: WorkspaceHarness, job: ClaimedJob) -> bool:
    ref = f"refs/heads/{job.branch}"
    return bool(run_git(workspace.origin.bare, "for-each-ref", ref))


async def test_the_branch_of_a_merged_pull_request_is_deleted(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    assert has_branch(workspace, job)
    env.change_pull(1, state="merged")
    await env.full_sync()
    assert not has_branch(workspace, job)
    assert workspace.origin.head("main")
    assert await waiting(env) == 0


async def test_the_branch_of_a_closed_pull_request_is_deleted_a_day_later(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    env.change_pull(1, state="closed")
    await env.full_sync()
    await env.full_sync()
    assert has_branch(workspace, job)
    await env.execute(FORGET_DELAY)
    await env.full_sync()
    assert not has_branch(workspace, job)


async def test_a_reopened_pull_request_keeps_its_branch(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    env.change_pull(1, state="closed")
    await env.full_sync()
    env.change_pull(1, state="open")
    # Its row may still say that it is closed.
    env.platform.pull_of_any_branch = BranchPull(1, "Fix 1", "open")
    await env.execute(FORGET_DELAY)
    await env.full_sync()
    assert has_branch(workspace, job)
    assert await waiting(env) == 0


async def test_a_branch_that_somebody_else_committed_to_stays(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    head = workspace.origin.commit_as_is(branch=job.branch)
    env.change_pull(1, state="merged", head_commit=head)
    await env.full_sync()
    assert has_branch(workspace, job)
    assert await waiting(env) == 0


async def test_a_branch_that_moved_after_the_merge_stays(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    env.change_pull(1, state="merged")
    workspace.origin.commit_as_is(branch=job.branch)
    await env.full_sync()
    assert has_branch(workspace, job)
    assert await waiting(env) == 0


async def test_a_branch_with_an_open_pull_request_that_has_no_row_stays(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    env.platform.pull_of_any_branch = BranchPull(2, "Another", "open")
    env.change_pull(1, state="merged")
    await env.full_sync()
    assert has_branch(workspace, job)


async def test_only_branches_of_jobs_are_ever_recorded(env: SyncEnvironment) -> None:
    row = await env.row()
    for branch in ("main", "agentjobs", "feature/agentjobs/x"):
        await env.db.transact(record_finished_branch, row["id"], branch, row["head_commit"])
    assert await waiting(env) == 0


async def test_with_the_setting_off_no_branch_is_deleted(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    settings = msgspec.structs.replace(env.context.settings, delete_branches=False)
    env.context = JobsContext(env.db, settings, env.context.catalog)
    env.restart()
    job = await open_pull(env, workspace)
    env.change_pull(1, state="merged")
    await env.full_sync()
    assert has_branch(workspace, job)


async def test_a_failed_deletion_is_retried_a_few_times_and_fails_no_sync(
    env: SyncEnvironment, workspace: WorkspaceHarness
) -> None:
    job = await open_pull(env, workspace)
    env.change_pull(1, state="merged")
    env.platform.faults["pull_of_branch"] = PlatformError("HTTP 503", "away")
    assert (await env.full_sync())["sync_error"] is None
    # Not before the next attempt is due.
    before = env.platform.requests["pull_of_branch"]
    await env.full_sync()
    assert env.platform.requests["pull_of_branch"] == before
    for _ in range(MAX_FAILURES):
        assert has_branch(workspace, job)
        await env.execute(FORGET_DELAY)
        await env.full_sync()
    assert env.platform.requests["pull_of_branch"] == MAX_FAILURES
    assert await waiting(env) == 0
