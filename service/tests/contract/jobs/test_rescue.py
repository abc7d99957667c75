"""What becomes of a job whose lease expired, on both databases."""

from typing import Any

import msgspec
import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.lost_claims import MAX_LOST_IN_PREPARATION
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.authentication import Caller
from agentjobs.platforms.protocol import PullRequestRequest, RepoAddress
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.pulls.pulls import close_pull
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS, SECOND_MS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
WORKER = WorkerInfo("wrk_a", "host", 2, AGENTS)


async def lose_worker(
    harness: JobHarness, worker_id: str = WORKER.id, *, start: bool = True
) -> None:
    claimed = await harness.claim(worker_id)
    if start:
        await start_job(harness.db, claimed, BASE)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)


async def error_code(harness: JobHarness, caller: Caller, job_id: str) -> str | None:
    job = await harness.view(caller, job_id)
    return None if job.error is None else job.error.code


async def test_a_worker_that_returns_was_not_lost(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(5):
        await lose_worker(harness)
        await renew(harness.db, WORKER, [], 10, was_cut_off=True)
    assert (await harness.view(caller, job_id)).status == "queued"
    for _ in range(2):
        await lose_worker(harness, "wrk_dead")
    assert (await harness.view(caller, job_id)).status == "queued"
    await lose_worker(harness, "wrk_dead")
    assert await error_code(harness, caller, job_id) == "worker_lost"


async def test_a_worker_that_returned_before_the_rescue_was_not_lost(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(4):
        await start_job(harness.db, await harness.claim(WORKER.id), BASE)
        await harness.expire_leases()
        await renew(harness.db, WORKER, [], 10)
        await rescue_lost_jobs(harness.db, harness.context.settings)
    assert (await harness.view(caller, job_id)).status == "queued"


async def test_a_job_fails_for_good_only_once_its_worker_had_time_to_report(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    settings = msgspec.structs.replace(harness.context.settings, lost_worker_retries=0)
    lost = await harness.claim(WORKER.id)
    await start_job(harness.db, lost, BASE)
    await harness.db.transact(_expire_before, SECOND_MS)
    assert await rescue_lost_jobs(harness.db, settings) == []
    assert (await harness.view(caller, job_id)).status == "running"
    # It is back, and has stopped the agent.
    await renew(harness.db, WORKER, [], 10)
    assert await rescue_lost_jobs(harness.db, settings) == [job_id]
    assert (await harness.view(caller, job_id)).status == "queued"

    await start_job(harness.db, await harness.claim("wrk_dead"), BASE)
    await harness.db.transact(_expire_before, int(3 * settings.lease_seconds * SECOND_MS))
    assert await rescue_lost_jobs(harness.db, settings) == [job_id]
    assert await error_code(harness, caller, job_id) == "worker_lost"


async def _expire_before(tx: Transaction, ago_ms: int) -> None:
    await tx.execute("UPDATE job_queue SET lease_expires_at = :at", at=await tx.clock_ms() - ago_ms)


async def test_other_workers_do_not_return_for_a_lost_one(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(3):
        await lose_worker(harness)
        await renew(harness.db, WorkerInfo("wrk_b", "host", 2, AGENTS), [], 10, was_cut_off=True)
    assert await error_code(harness, caller, job_id) == "worker_lost"


async def test_a_job_is_requeued_after_cut_offs_for_a_day_only(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await lose_worker(harness)
    await renew(harness.db, WORKER, [], 10, was_cut_off=True)
    await harness.db.transact(_a_day_earlier)
    await lose_worker(harness)
    assert await error_code(harness, caller, job_id) == "worker_lost"


async def _a_day_earlier(tx: Transaction) -> None:
    await tx.execute("UPDATE lost_claims SET lost_at = lost_at - :ms", ms=DAY_MS)


async def test_an_interrupted_preparation_costs_no_attempt(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(5):
        await lose_worker(harness, start=False)
    job = await harness.view(caller, job_id)
    assert (job.status, job.attempt) == ("queued", 0)
    # Nor does it count among the lost workers of the runs.
    for _ in range(2):
        await lose_worker(harness)
    assert (await harness.view(caller, job_id)).status == "queued"


async def test_a_job_that_kills_workers_in_preparation_ends(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(MAX_LOST_IN_PREPARATION - 1):
        await lose_worker(harness, start=False)
    assert (await harness.view(caller, job_id)).status == "queued"
    await lose_worker(harness, start=False)
    assert await error_code(harness, caller, job_id) == "worker_lost"
    assert await harness.events(caller, job_id) == ["job.queued", "job.failed"]


async def run_until_opened(harness: JobHarness, **fields: Any) -> ClaimedJob:
    """A worker that dies right after it opened the pull request."""
    job = await harness.claim()
    await start_job(harness.db, job, BASE)
    adapter = LocalPlatform(harness.db, "http://127.0.0.1:1", "https://x.example", may_write_branch)
    request = PullRequestRequest(
        head_branch=job.branch,
        base_branch="main",
        head_commit=COMMIT,
        base_commit=BASE,
        title="Fix the price",
        body="",
        **fields,
    )
    address = RepoAddress(job.organization, job.repo, job.repo_id)
    await adapter.open_pull_request(address, job.credential, request)
    await harness.expire_leases()
    return job


async def test_a_lost_job_with_an_open_pull_request_completes(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_until_opened(harness)
    await rescue_lost_jobs(harness.db, harness.context.settings)
    job = await harness.view(caller, job_id)
    url = f"{harness.context.settings.effective_public_url}/acme/acme/shop/pulls/1"
    assert (job.status, job.pr_number, job.pr_url) == ("completed", 1, url)
    assert (await harness.events(caller, job_id))[-2:] == ["job.completed", "pr.review_requested"]


async def test_the_draft_of_a_lost_job_requests_no_review(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_until_opened(harness, draft=True)
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert (await harness.events(caller, job_id))[-1] == "job.completed"


async def test_a_cancel_after_the_pull_request_came_too_late(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_until_opened(harness)
    await cancel_job(harness.db, caller.organization_id, job_id)
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert (await harness.view(caller, job_id)).status == "completed"
    [note] = await read_chunks(harness.db, job_id, 0, 10)
    assert "the cancel came too late" in note.text
    with pytest.raises(Problem) as problem:
        await cancel_job(harness.db, caller.organization_id, job_id)
    assert problem.value.code == "job_finished"


async def test_a_closed_pull_request_does_not_complete_a_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_until_opened(harness)
    await close_pull(harness.db, "acme", "acme/shop", 1)
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert (await harness.view(caller, job_id)).status == "queued"
