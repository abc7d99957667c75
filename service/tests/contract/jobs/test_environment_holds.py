"""Jobs wait for their environment, on both databases."""

from agentjobs.environments import builds
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.environment_holds import hold_jobs, prune_holds, was_held_for
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import (
    BUILD_HOLD_MS,
    OUTAGE_HOLD_MS,
    PREFERENCE_MS,
    Finished,
    NewBuild,
    hold_key,
)
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import EnvironmentHold, NotReady
from tests.support.jobs import AGENTS, JobHarness

REQUEST = EnvironmentRequest(definition=EnvironmentDefinition(setup="make deps"))
HERE, THERE = "location-a", "location-b"


async def claim_at(harness: JobHarness, location: str) -> list[ClaimedJob]:
    return await Claimer(harness.context, "wrk_a", location=location).claim(AGENTS, 1)


async def begin(harness: JobHarness, job: ClaimedJob) -> str:
    new = NewBuild(
        organization_id=job.organization_id,
        repo_id=job.repo_id,
        reason="job",
        branch="main",
        location=HERE,
        request=REQUEST,
    )
    return await builds.begin_build(harness.db, new)


def hold_of(job: ClaimedJob) -> EnvironmentHold:
    key = hold_key(job.repo_id, REQUEST.request_key)
    return EnvironmentHold(key, job.repo_id, None, BUILD_HOLD_MS, REQUEST.request_key)


async def test_a_job_waits_for_a_build_without_spending_an_attempt(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    await begin(harness, job)
    assert await finish_job(harness.db, job, NotReady(hold_of(job)))
    assert await claim_at(harness, HERE) == []
    assert await claim_at(harness, THERE) == []
    harness.context.fleet.forget()
    view = await harness.view(caller, job_id)
    assert (view.status, view.attempt, view.queue_reason) == ("queued", 0, "environment_building")


async def test_other_jobs_do_not_wait_for_the_build(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    await begin(harness, job)
    await finish_job(harness.db, job, NotReady(hold_of(job)))
    other = await harness.job(caller)
    assert [each.id for each in await claim_at(harness, THERE)] == [other]


async def test_after_a_build_its_worker_may_claim_first(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    build_id = await begin(harness, job)
    await finish_job(harness.db, job, NotReady(hold_of(job)))
    await builds.finish_build(harness.db, build_id, Finished(key="k"))
    key = hold_key(job.repo_id, REQUEST.request_key)
    await hold_jobs(harness.db, EnvironmentHold(key, job.repo_id, HERE, PREFERENCE_MS))
    assert await claim_at(harness, THERE) == []
    [again] = await claim_at(harness, HERE)
    assert again.id == job.id
    assert await was_held_for(harness.db, hold_key(job.repo_id, REQUEST.request_key), HERE)


async def test_a_build_that_ended_before_its_job_was_requeued_holds_nothing(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    build_id = await begin(harness, job)
    await builds.finish_build(harness.db, build_id, Finished(key="k"))
    await finish_job(harness.db, job, NotReady(hold_of(job)))
    assert len(await claim_at(harness, THERE)) == 1


async def test_while_a_registry_is_away_nobody_claims_the_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    key = hold_key(job.repo_id, REQUEST.request_key)
    outage = EnvironmentHold(key, job.repo_id, None, OUTAGE_HOLD_MS)
    await finish_job(harness.db, job, NotReady(outage))
    assert await claim_at(harness, HERE) == []


async def test_holds_that_are_over_are_deleted(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    [job] = await claim_at(harness, HERE)
    over = EnvironmentHold("k", job.repo_id, HERE, -2 * OUTAGE_HOLD_MS)
    await finish_job(harness.db, job, NotReady(over))
    assert len(await claim_at(harness, THERE)) == 1
    await prune_holds(harness.db)
    assert await harness.db.fetch_all("SELECT 1 FROM environment_holds") == []
