"""A worker that restarts takes over the jobs of the one that died, on both databases."""

import msgspec
import pytest

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.operations.workers import list_worker_views
from agentjobs.jobs.queue.adoption import adopt_jobs
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.lost_claims import MAX_ADOPTIONS
from agentjobs.jobs.queue.start import start_job
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import Completed, Failed, LostSandbox
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
DEAD, SUCCESSOR = (WorkerInfo(f"wrk_{name}", "host", 2, AGENTS) for name in ("dead", "next"))


async def run_on_dead_worker(harness: JobHarness) -> ClaimedJob:
    job = await harness.claim(DEAD.id)
    await start_job(harness.db, job, BASE, "the prompt")
    return job


async def adopt(harness: JobHarness, count: int = 4) -> list[ClaimedJob]:
    return await adopt_jobs(harness.db, SUCCESSOR.id, [DEAD.id], count=count, lease_seconds=10)


async def test_a_running_job_goes_on_without_a_change_that_clients_see(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    first = await run_on_dead_worker(harness)
    before = await harness.view(caller, job_id)
    (job,) = await adopt(harness)
    assert (job.id, job.attempt, job.adopted_base) == (job_id, first.attempt, BASE)
    assert (job.is_adopted, job.continues) == (True, first.fence)
    # The step that starts agents only checks the claim.
    await start_job(harness.db, job, BASE, "another prompt")
    after = await harness.view(caller, job_id)
    assert msgspec.structs.replace(after, elapsed_ms=before.elapsed_ms) == before
    assert await harness.events(caller, job_id) == ["job.queued", "job.started"]
    done = Completed("http://x/1", 1, COMMIT, draft=False)
    assert await finish_job(harness.db, job, done)
    events = ["job.queued", "job.started", "job.completed", "pr.review_requested"]
    assert await harness.events(caller, job_id) == events
    assert (await harness.view(caller, job_id)).attempt == 1


async def test_the_dead_worker_can_write_nothing_if_it_was_alive_after_all(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    first = await run_on_dead_worker(harness)
    (job,) = await adopt(harness)
    assert (await renew(harness.db, DEAD, [first.claim], 10)).renewed == frozenset()
    assert not await finish_job(harness.db, first, Failed("agent_failed", ""))
    with pytest.raises(ClaimLost):
        await append_chunk(harness.db, first, "late output", 1)
    may_write = (may_write_branch, job.repo_id, job.branch)
    assert not await harness.db.transact(*may_write, first.credential)
    assert await harness.db.transact(*may_write, job.credential)
    assert (await renew(harness.db, SUCCESSOR, [job.claim], 10)).renewed == {job.claim}


async def test_a_job_whose_lease_expired_is_left_to_the_rescue(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_on_dead_worker(harness)
    await harness.expire_leases()
    assert await adopt(harness) == []
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == [job_id]


async def test_a_job_that_was_being_prepared_returns_to_the_queue(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await harness.claim(DEAD.id)
    assert await adopt(harness) == []
    assert await harness.events(caller, job_id) == ["job.queued"]
    assert (await harness.claim()).id == job_id


async def test_jobs_beyond_the_slots_return_to_the_queue_without_an_attempt(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    for _ in range(3):
        await harness.job(caller)
        await run_on_dead_worker(harness)
    (job,) = await adopt(harness, count=1)
    for _ in range(2):
        other = await harness.claim()
        assert other.id != job.id
        assert (other.attempt, other.is_adopted) == (0, False)


async def test_a_cancel_that_the_dead_worker_missed_is_carried_out(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_on_dead_worker(harness)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert await adopt(harness) == []
    assert (await harness.view(caller, job_id)).status == "cancelled"


async def test_the_jobs_of_other_workers_stay_with_them(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    other = await harness.claim("wrk_other")
    await start_job(harness.db, other, BASE)
    assert await adopt(harness) == []
    alive = WorkerInfo("wrk_other", "host", 2, AGENTS)
    assert (await renew(harness.db, alive, [other.claim], 10)).renewed == {other.claim}


async def test_the_dead_worker_is_no_longer_listed(harness: JobHarness) -> None:
    for worker in (DEAD, SUCCESSOR):
        await renew(harness.db, worker, [], 10)
    await adopt(harness)
    views = await list_worker_views(harness.db, harness.context.settings)
    assert [worker.id for worker in views] == [SUCCESSOR.id]


async def test_an_adopted_job_whose_agent_is_gone_runs_again_without_an_attempt(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_on_dead_worker(harness)
    (job,) = await adopt(harness)
    assert await finish_job(harness.db, job, LostSandbox(Failed("sandbox_error", "gone")))
    again = await harness.claim()
    assert (again.attempt, again.is_adopted, again.continues) == (0, False, 0)
    await start_job(harness.db, again, BASE)
    events = ["job.queued", "job.started", "job.queued", "job.started"]
    assert await harness.events(caller, job_id) == events


async def test_an_agent_that_ends_its_workers_is_not_adopted_for_ever(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await run_on_dead_worker(harness)
    for _ in range(MAX_ADOPTIONS):
        again = await adopt_jobs(harness.db, DEAD.id, [DEAD.id], count=1, lease_seconds=10)
        assert [job.id for job in again] == [job_id]
    assert await adopt(harness) == []
    await harness.expire_leases()
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == [job_id]
    view = await harness.view(caller, job_id)
    assert (view.status, view.attempt) == ("queued", 1)
    # Only the last of these claims counts as that of a lost worker.
    for _ in range(harness.context.settings.lost_worker_retries):
        assert (await harness.view(caller, job_id)).status == "queued"
        await run_on_dead_worker(harness)
        await harness.expire_leases()
        await rescue_lost_jobs(harness.db, harness.context.settings)
    error = (await harness.view(caller, job_id)).error
    assert error is not None
    assert error.code == "worker_lost"


async def test_a_successor_that_dies_too_is_followed_by_another(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    first = await run_on_dead_worker(harness)
    (second,) = await adopt(harness)
    (third,) = await adopt_jobs(
        harness.db, "wrk_third", [DEAD.id, SUCCESSOR.id], count=1, lease_seconds=10
    )
    assert first.fence < second.fence < third.fence
    assert (third.continues, third.attempt) == (second.fence, 0)
