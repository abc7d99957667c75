"""The phases of a job are stored with its start and end, and while they last, on both databases."""

import asyncio
import time
from functools import partial

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.adoption import adopt_jobs
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.results.run_records import record_phases
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.organizations.authentication import Caller
from agentjobs.publishing import phases as run_phases
from agentjobs.publishing.phases import RunPhases
from agentjobs.store.database import StoreUnavailable
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, Kept, KeptWork, Released
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
DONE = Completed("http://x/1", 1, COMMIT, draft=False)


async def start(harness: JobHarness, job: ClaimedJob) -> RunPhases:
    phases = RunPhases(job)
    phases.begin("agent")
    await start_job(harness.db, job, BASE, "the prompt", phases.encode())
    return phases


async def shown(harness: JobHarness, caller: Caller, job_id: str) -> list[tuple[int, str]]:
    return [(each.attempt, each.phase) for each in (await harness.view(caller, job_id)).phases]


async def current(harness: JobHarness, caller: Caller) -> str | None:
    page = await list_lines(harness.db, caller.organization_id, JobFilter(), limit=1)
    return page.lines[0].phase


async def test_a_job_tells_its_phases_from_the_queue_to_the_pull_request(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    assert await shown(harness, caller, job_id) == [(1, "queued")]
    assert await current(harness, caller) == "queued"
    job = await harness.claim()
    phases = await start(harness, job)
    assert await shown(harness, caller, job_id) == [(1, "queued"), (1, "prepare"), (1, "agent")]
    assert await current(harness, caller) == "agent"
    phases.begin("push")
    phases.begin("pull_request")
    assert await finish_job(harness.db, job, DONE, phases.encode_end(DONE))
    view = await harness.view(caller, job_id)
    names = ["queued", "prepare", "agent", "push", "pull_request"]
    assert [each.phase for each in view.phases] == names
    assert all(each.ended_at is not None for each in view.phases)
    assert await current(harness, caller) is None


async def test_phases_follow_the_databases_clock(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    job = await harness.claim()
    slow_ns = time.time_ns() - 150 * 10**9
    with monkeypatch.context() as wrong_clock:
        wrong_clock.setattr(time, "time_ns", lambda: slow_ns)
        phases = RunPhases(job)
        phases.begin("agent")
        text = phases.encode()
    await start_job(harness.db, job, BASE, "the prompt", text)
    times = [each.started_at for each in (await harness.view(caller, job_id)).phases]
    assert times == sorted(times)


async def test_attempts_are_apart_and_tell_why_they_ended(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await start(harness, await harness.claim("wrk_lost"))
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)

    drained = await harness.claim()
    phases = await start(harness, drained)
    assert await finish_job(harness.db, drained, Released(), phases.encode_end(Released()))

    keeping = await harness.claim()
    phases = await start(harness, keeping)
    kept = Kept(KeptWork(BASE, COMMIT, b"a bundle"))
    assert await finish_job(harness.db, keeping, kept, phases.encode_end(kept))

    [publishing] = await claim_kept_work(harness.db, 1, 10_000)
    phases = RunPhases(publishing)
    phases.begin("pull_request")
    assert await finish_job(harness.db, publishing, DONE, phases.encode_end(DONE))
    view = await harness.view(caller, job_id)
    assert view.status == "completed"
    ends = {each.attempt: (each.phase, each.interruption) for each in view.phases}
    assert ends == {
        1: ("agent", "worker_lost"),
        2: ("agent", "worker_stopped"),
        3: ("pull_request", None),
    }


async def test_the_run_of_an_adopted_job_goes_on(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    dead = WorkerInfo("wrk_dead", "host", 2, AGENTS)
    job = await harness.claim(dead.id)
    await renew(harness.db, dead, [job.claim], 60)
    await start(harness, job)
    (adopted,) = await adopt_jobs(harness.db, "wrk_next", [dead.id], count=1, lease_seconds=60)
    phases = RunPhases(adopted)
    phases.begin("push")
    assert await finish_job(harness.db, adopted, DONE, phases.encode_end(DONE))
    expected = [(1, "queued"), (1, "prepare"), (1, "agent"), (1, "push")]
    assert await shown(harness, caller, job_id) == expected


async def test_a_phase_that_lasts_is_stored_and_an_outage_only_delays_it(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_phases, "_STORE_SECONDS", 0)
    caller = await harness.organization()
    job_id = await harness.job(caller)
    job = await harness.claim()
    phases = RunPhases(job)
    has_failed = asyncio.Event()

    async def unavailable(*_: object) -> None:
        has_failed.set()
        raise StoreUnavailable("away")

    with harness.db.changes.listen(f"job:{job_id}") as signal:
        with monkeypatch.context() as outage:
            outage.setattr(harness.db, "transact", unavailable)
            background = phases.store_in_background(partial(record_phases, harness.db, job))
            await background.__aenter__()
            await has_failed.wait()
        assert await shown(harness, caller, job_id) == [(1, "queued")]
        phases.begin("environment")
        assert await signal.wait(30)
        await background.__aexit__(None, None, None)
    assert (await shown(harness, caller, job_id))[-1] == (1, "environment")
    assert await current(harness, caller) == "environment"


async def test_a_worker_that_lost_its_claim_stores_no_phase(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_phases, "_STORE_SECONDS", 0)
    caller = await harness.organization()
    job_id = await harness.job(caller)
    job = await harness.claim("wrk_lost")
    phases = RunPhases(job)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    await start(harness, await harness.claim())
    with harness.db.changes.listen(f"job:{job_id}") as signal:
        async with phases.store_in_background(partial(record_phases, harness.db, job)):
            assert await signal.wait(30)
    assert await current(harness, caller) == "agent"
