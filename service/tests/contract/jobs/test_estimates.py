"""What estimates are made from, as it is read from both stores."""

from typing import Any

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.queue_model import Queue
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.queries import list_jobs
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.pauses import pause
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

SECOND = 1_000
MINUTE = 60 * SECOND


async def write(tx: Transaction, sql: str, values: dict[str, Any]) -> None:
    await tx.execute(sql, **values)


async def estimate(harness: JobHarness, caller: Caller, **override: Any) -> int:
    body = CreateJobRequest(
        f"{caller.organization}/shop", "fixer", config_override=override or None
    )
    return (await create_job(harness.context, caller, body)).receipt.estimated_start_ms


async def worker(harness: JobHarness, slots: int = 2, worker_id: str = "wrk_a") -> None:
    await renew(harness.db, WorkerInfo(worker_id, "host", slots, AGENTS), [], 10)


async def started(harness: JobHarness, ms_ago: int) -> str:
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    await harness.db.transact(
        write,
        "UPDATE jobs SET started_at = started_at - :ms WHERE id = :id",
        {"id": job.id, "ms": ms_ago},
    )
    return job.id


async def finished(harness: JobHarness, caller: Caller, agent: str, *durations_ms: int) -> None:
    for duration_ms in durations_ms:
        job_id, end = await harness.job(caller, agent=agent), now_ms()
        await harness.db.transact(
            write,
            "UPDATE jobs SET status = 'failed', started_at = :start, completed_at = :end"
            " WHERE id = :id",
            {"id": job_id, "start": end - duration_ms, "end": end},
        )
        await harness.db.transact(write, "DELETE FROM job_queue WHERE job_id = :id", {"id": job_id})
    harness.context.fleet.forget()


async def queue(harness: JobHarness) -> Queue:
    harness.context.fleet.forget()
    return (await harness.context.fleet.state()).queue


async def test_behind_a_job_of_20_seconds_on_the_free_plan_the_estimate_is_its_rest(
    harness: JobHarness,
) -> None:
    caller = await harness.organization(plan="free")
    other = await harness.organization("other")
    await worker(harness, slots=9)
    await finished(harness, other, "pro-fixer", *[500] * 20)
    await finished(harness, other, "fixer", *[20 * MINUTE] * 5)
    assert await estimate(harness, caller) == 0
    # The state of the fleet is from before that job.
    assert await estimate(harness, caller) == 20 * MINUTE
    await started(harness, ms_ago=15 * MINUTE)
    harness.context.fleet.forget()
    # The rest of that job, and the whole of the next one.
    assert 24 * MINUTE <= await estimate(harness, caller) < 26 * MINUTE


async def test_running_jobs_are_read_with_their_pools_and_how_long_they_have_run(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await worker(harness, slots=3)
    for _ in range(2):
        await harness.job(caller)
    await started(harness, ms_ago=60 * MINUTE)
    await harness.claim("wrk_gone")
    read = await queue(harness)
    assert [(pool.slots, pool.agents) for pool in read.pools] == [(3, frozenset(AGENTS))]
    long, prepared = sorted(read.running, key=lambda job: -job.elapsed_ms)
    assert (long.organization_id, long.agent, long.pool) == (caller.organization_id, "fixer", 0)
    assert 59 * MINUTE <= long.elapsed_ms < 90 * MINUTE
    assert (prepared.elapsed_ms, prepared.pool) == (0, None)
    assert read.limits == {caller.organization_id: 50}


async def test_waiting_jobs_are_counted_by_agent_and_by_what_comes_before_a_priority(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    for priority in ("high", "normal", "normal", "low"):
        await harness.job(caller, config_override={"priority": priority})
    await harness.job(caller, agent="pro-fixer")
    backlog = (await queue(harness)).backlogs[caller.organization_id]
    assert backlog.agents == {"fixer": 4, "pro-fixer": 1}
    assert backlog.before == {"high": 1, "normal": 4, "low": 5}


async def test_a_job_of_high_priority_is_expected_before_the_others(harness: JobHarness) -> None:
    caller = await harness.organization()
    await worker(harness, slots=1)
    await finished(harness, caller, "fixer", *[SECOND] * 5)
    for _ in range(6):
        await harness.job(caller)
    harness.context.fleet.forget()
    assert await estimate(harness, caller, priority="high") == 0
    harness.context.fleet.forget()
    assert await estimate(harness, caller, priority="high") == SECOND
    harness.context.fleet.forget()
    assert await estimate(harness, caller) == 8 * SECOND


async def test_jobs_of_paused_organizations_delay_nobody(harness: JobHarness) -> None:
    paused = await harness.organization("paused")
    caller = await harness.organization()
    await worker(harness, slots=1)
    for _ in range(5):
        await harness.job(paused)
    await pause(harness.db, "paused")
    assert set((await queue(harness)).backlogs) == set()
    assert await estimate(harness, caller) == 0


async def test_recent_jobs_teach_durations_and_arrivals(harness: JobHarness) -> None:
    caller = await harness.organization()
    await finished(harness, caller, "fixer", *range(1_000, 1_005))
    await finished(harness, caller, "pro-fixer", *range(7_000, 7_006))
    read = await queue(harness)
    assert list(read.durations.of("fixer")) == list(range(1_000, 1_005))
    assert list(read.durations.of("pro-fixer")) == list(range(7_000, 7_006))
    agents = [agent for organization_id, agent in read.arrivals.jobs]
    assert sorted(agents) == ["fixer"] * 5 + ["pro-fixer"] * 6
    assert read.arrivals.window_ms == 3_600 * SECOND


async def test_a_cancelled_job_that_never_started_teaches_no_duration(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await cancel_job(harness.db, caller.organization_id, await harness.job(caller))
    assert list((await queue(harness)).durations.of("fixer")) == [60 * SECOND]


async def test_limits_of_repositories_are_read(harness: JobHarness) -> None:
    caller = await harness.organization()
    await worker(harness, slots=9)
    await finished(harness, caller, "fixer", *[SECOND] * 5)
    await harness.db.transact(write, "UPDATE repos SET max_concurrent_jobs = 1", {})
    await harness.job(caller)
    await harness.claim()
    harness.context.fleet.forget()
    assert await estimate(harness, caller) == SECOND


async def test_a_waiting_job_shows_when_it_is_expected_to_start(harness: JobHarness) -> None:
    caller = await harness.organization(plan="free")
    await worker(harness, slots=9)
    await finished(harness, caller, "fixer", *[20 * MINUTE] * 5)
    first, second, third = [await harness.job(caller) for _ in range(3)]
    await started(harness, ms_ago=15 * MINUTE)
    harness.context.fleet.forget()
    views = [await harness.view(caller, job_id) for job_id in (first, second, third)]
    assert views[0].estimated_start_ms is None
    assert 4 * MINUTE <= (views[1].estimated_start_ms or 0) < 6 * MINUTE
    assert 24 * MINUTE <= (views[2].estimated_start_ms or 0) < 26 * MINUTE
    listed = await list_jobs(harness.context, caller.organization_id)
    assert {job.estimated_start_ms for job in listed.jobs} == {None}


async def test_a_job_that_no_worker_can_run_shows_no_estimate(harness: JobHarness) -> None:
    caller = await harness.organization()
    view = await harness.view(caller, await harness.job(caller))
    assert (view.queue_reason, view.queue_position) == ("no_worker", 1)
    assert view.estimated_start_ms is None
