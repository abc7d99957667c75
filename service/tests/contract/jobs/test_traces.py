"""The trace of a job is in its row, so that every process continues it, on both databases."""

import asyncio

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.authentication import Caller
from agentjobs.publishing.phases import RunPhases
from agentjobs_runtime.protocol.outcomes import Failed, Kept, KeptWork
from agentjobs_runtime.protocol.run_trace import record_run
from agentjobs_runtime.tracing.spans import continue_trace, span, within_span
from agentjobs_worker.run.trace import run_span
from service.tests.contract.jobs.test_follow_ups import completed
from tests.support.jobs import JobHarness
from tests.support.recorded_spans import recorded_spans

BASE, COMMIT = "1" * 40, "2" * 40


def traceparent(digit: str) -> str:
    return f"00-{digit * 32}-{digit * 16}-01"


async def create_in_trace(harness: JobHarness, caller: Caller, digit: str) -> str:
    with continue_trace("POST /v1/jobs", traceparent(digit)):
        return await harness.job(caller)


async def test_every_worker_continues_the_trace_of_the_request(harness: JobHarness) -> None:
    caller = await harness.organization()
    with recorded_spans() as recorded:
        job_id = await create_in_trace(harness, caller, "a")
        (request,) = recorded.get_finished_spans()

        lost = await harness.claim("wrk_lost")
        await start_job(harness.db, lost, BASE)
        await harness.expire_leases()
        await rescue_lost_jobs(harness.db, harness.context.settings)

        keeping = await harness.claim("wrk_keeping")
        await start_job(harness.db, keeping, BASE)
        kept = Kept(KeptWork(BASE, COMMIT, b"a bundle"))
        assert await finish_job(harness.db, keeping, kept)

        claims = (lost, keeping)
        for claimed in claims:
            with run_span(claimed, RunPhases(claimed)) as run:
                run.outcome = Failed("timeout", "a message")
        waits, runs = recorded.get_finished_spans()[1::2], recorded.get_finished_spans()[2::2]

    assert {claimed.id for claimed in claims} == {job_id}
    assert request.context.trace_id == int("a" * 32, 16)
    for ended in (*waits, *runs):
        assert ended.context.trace_id == request.context.trace_id
        assert ended.parent is not None
        assert ended.parent.span_id == request.context.span_id
    assert [wait.name for wait in waits] == ["queue"] * 2
    assert [wait.start_time for wait in waits] == [
        claimed.queued_at * 1_000_000 for claimed in claims
    ]
    assert lost.queued_at == lost.created_at
    assert lost.queued_at <= keeping.queued_at
    assert [run.attributes["agentjobs.attempt"] for run in runs if run.attributes] == [1, 2]
    assert {run.attributes["error.type"] for run in runs if run.attributes} == {"timeout"}


async def test_the_span_of_a_run_ends_where_its_work_is_published(harness: JobHarness) -> None:
    caller = await harness.organization()
    with recorded_spans() as recorded:
        await create_in_trace(harness, caller, "a")
        claimed = await harness.claim()
        phases = RunPhases(claimed)
        kept = Kept(KeptWork(BASE, COMMIT, b"a bundle"))
        with run_span(claimed, phases) as run:
            with span("commit"):
                pass
            run.outcome = kept
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, kept, phases.encode_end(kept))
        assert [ended.name for ended in recorded.get_finished_spans()[1:]] == ["queue", "commit"]

        [publishing] = await claim_kept_work(harness.db, 1, 10_000)
        phases = RunPhases(publishing)
        with within_span(phases.span), span("push"):
            pass
        record_run(publishing, phases.span, phases.claimed_at, Failed("push_rejected", "no"))
        *_, commit, push, whole = recorded.get_finished_spans()
    assert whole.name == "run job"
    assert commit.parent is not None
    assert push.parent is not None
    assert commit.parent.span_id == push.parent.span_id == whole.context.span_id
    assert whole.start_time <= commit.start_time
    assert whole.end_time >= push.end_time


async def test_jobs_that_are_created_together_keep_their_own_traces(harness: JobHarness) -> None:
    """Several organizations share a transaction, which runs in the context of one of them."""
    digits = "123456789"
    callers = {digit: await harness.organization(f"org-{digit}") for digit in digits}
    without = await harness.organization("without")

    async def create_without() -> str:
        return await harness.job(without)

    created = [create_in_trace(harness, caller, digit) for digit, caller in callers.items()]
    await asyncio.gather(*created[:4], create_without(), *created[4:])
    rows = await harness.db.fetch_all(
        "SELECT o.name, j.traceparent FROM jobs j JOIN organizations o ON o.id = j.organization_id"
    )
    assert {row["name"]: row["traceparent"] for row in rows} == {
        **{f"org-{digit}": traceparent(digit) for digit in digits},
        "without": None,
    }


@pytest.mark.parametrize("kind", ["follow-up", "retry"])
async def test_a_later_job_belongs_to_the_trace_of_its_own_request(
    harness: JobHarness, kind: str
) -> None:
    caller = await harness.organization()
    with continue_trace("POST /v1/jobs", traceparent("a")):
        earlier = await completed(harness, caller)
    with continue_trace("POST", traceparent("b")):
        if kind == "retry":
            await retry_job(harness.context, caller, earlier)
        else:
            body = FollowUpRequest(prompt="Now test it.")
            await follow_up_job(harness.context, caller, earlier, body)
    assert (await harness.claim()).traceparent == traceparent("b")


async def test_a_job_without_a_request_gets_a_trace_only_while_traces_are_recorded(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    assert (await harness.claim()).traceparent is None
    with recorded_spans() as recorded:
        await harness.job(caller)
        (created,) = recorded.get_finished_spans()
    parent = (await harness.claim()).traceparent
    assert parent is not None
    assert parent.split("-")[1:3] == [
        f"{created.context.trace_id:032x}",
        f"{created.context.span_id:016x}",
    ]
