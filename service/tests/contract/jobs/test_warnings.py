"""Warnings of jobs, on both databases."""

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.warnings import MAX_WARNING_LENGTH, MAX_WARNINGS, add_warnings
from agentjobs_runtime.protocol.outcomes import Released
from tests.support.jobs import JobHarness


async def test_a_job_shows_each_warning_once_whatever_attempt_adds_it(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    assert (await harness.view(caller, job_id)).warnings == ()
    for messages in (["one", "two"], ["two", "three"]):
        claimed = await harness.claim()
        await harness.db.transact(add_warnings, claimed, messages)
        await finish_job(harness.db, claimed, Released())
    assert (await harness.view(caller, job_id)).warnings == ("one", "two", "three")


async def test_warnings_are_bounded(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    messages = [f"{number} {'x' * MAX_WARNING_LENGTH}" for number in range(2 * MAX_WARNINGS)]
    await harness.db.transact(add_warnings, await harness.claim(), messages)
    warnings = (await harness.view(caller, job_id)).warnings
    assert [len(warning) for warning in warnings] == [MAX_WARNING_LENGTH] * MAX_WARNINGS


async def test_a_worker_that_lost_its_claim_adds_no_warning(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    lost = await harness.claim()
    await finish_job(harness.db, lost, Released())
    await harness.claim()
    await harness.db.transact(add_warnings, lost, ["late"])
    assert (await harness.view(caller, job_id)).warnings == ()
