"""The steps of a job in the store: complete, bounded, redacted, of the latest attempt."""

import asyncio
from typing import Any

import pytest

from agentjobs.gateway.usage import CallReport, Usage
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.results.run_records import remove_results
from agentjobs.jobs.steps.model_calls import model_step
from agentjobs.jobs.steps.rows import (
    StepTotal,
    count_steps,
    read_steps,
    store_steps,
)
from agentjobs.store.database import StoreUnavailable
from agentjobs.workers import handlers
from agentjobs_runtime.agents.steps import Step, StoredStep
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Failed
from agentjobs_worker.logs.step_recorder import (
    MAX_DETAIL_LENGTH,
    MAX_STEPS,
    MAX_TITLE_LENGTH,
    StepRecorder,
)
from agentjobs_worker.logs.writer import LogWriter
from tests.support.event_loop import longest_turn
from tests.support.jobs import JobHarness

CAP = 1_000_000


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def job(harness: JobHarness) -> ClaimedJob:
    await harness.job(await harness.organization())
    return await harness.claim()


async def steps_of(harness: JobHarness, job: ClaimedJob) -> list[StoredStep]:
    return await read_steps(harness.db, job.id, limit=3_000)


def new_recorder(harness: JobHarness, job: ClaimedJob, clock: Clock | None = None) -> StepRecorder:
    """One that is stored by the test alone: the one of a LogWriter is stored by that, too."""
    return StepRecorder(harness.link(job), job, str, clock or Clock(), lambda: None)


async def test_a_step_is_stored_when_it_begins_and_again_when_it_ends(
    harness: JobHarness, job: ClaimedJob
) -> None:
    clock = Clock()
    steps = new_recorder(harness, job, clock)
    steps.record(Step(kind="command", title="make", state="running", key="1"))
    steps.record(Step(kind="message", title="I wait."))
    assert await steps.flush()
    (running, message) = await steps_of(harness, job)
    assert (running.sequence, running.state, running.duration_ms) == (1, "running", None)
    assert (message.sequence, message.kind) == (2, "message")
    clock.now += 1_500
    steps.record(Step(key="1", detail="no rule\n", state="failed", exit_code=2))
    assert await steps.flush()
    assert (await steps_of(harness, job))[0] == StoredStep(
        sequence=1,
        started_at=1_000_000,
        kind="command",
        title="make",
        detail="no rule",
        state="failed",
        exit_code=2,
        duration_ms=1_500,
    )


async def test_a_step_that_changes_all_the_time_does_not_keep_the_log_from_being_stored(
    harness: JobHarness, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = 0

    async def store_and_change(*arguments: Any, **options: Any) -> None:
        nonlocal changes
        changes += 1
        assert changes < 3
        await store_steps(*arguments, **options)
        steps.record(Step(title="make", state="running", key="1"))

    monkeypatch.setattr(handlers, "store_steps", store_and_change)
    steps = new_recorder(harness, job)
    steps.record(Step(title="make", state="running", key="1"))
    assert await steps.flush()
    assert changes == 1
    assert not steps.is_stored
    assert [step.title for step in await steps_of(harness, job)] == ["make"]


async def test_what_a_tool_was_asked_to_change_is_kept_unless_it_failed(
    harness: JobHarness, job: ClaimedJob
) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        for key in ("a", "b"):
            log.steps.record(Step(title=key, detail="+new", state="running", key=key))
        log.steps.record(Step(key="a", detail="The file was updated."))
        log.steps.record(Step(key="b", detail="It does not exist.", state="failed"))
        log.steps.record(Step(key="c", detail="Its beginning is not known."))
    details = [step.detail for step in await steps_of(harness, job)]
    assert details == ["+new", "It does not exist."]


async def test_a_step_that_the_agent_did_not_finish_is_unfinished(
    harness: JobHarness, job: ClaimedJob
) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.steps.record(Step(title="make", state="running", key="1"))
        log.steps.record(Step(title="nameless", state="running"))
        log.steps.end()
        log.steps.record(Step(key="1"))
    states = [step.state for step in await steps_of(harness, job)]
    assert states == ["unfinished", "succeeded"]


async def test_a_step_of_a_lost_worker_is_unfinished(harness: JobHarness, job: ClaimedJob) -> None:
    steps = new_recorder(harness, job)
    steps.record(Step(title="make", state="running", key="1"))
    assert await steps.flush()
    assert [step.state for step in await steps_of(harness, job)] == ["running"]
    await finish_job(harness.db, job, Failed("worker_lost", ""))
    assert [step.state for step in await steps_of(harness, job)] == ["unfinished"]


async def test_steps_are_redacted_printable_and_of_limited_size(
    harness: JobHarness, job: ClaimedJob
) -> None:
    async with LogWriter(harness.link(job), job, CAP, ["hunter22secret"]) as log:
        secret_at_the_end = "x" * (MAX_DETAIL_LENGTH - 5) + "hunter22secret" + "y" * 10_000
        log.steps.record(Step(title="login hunter22secret\nnow", detail=secret_at_the_end))
        log.steps.record(
            Step(title="\x1b[31mred\x00\ud800 " + "t" * 9_999, detail="a\x00\x1b[0m\n\tb ")
        )
    first, second = await steps_of(harness, job)
    assert first.title == "login [redacted] now"
    assert len(first.detail) == MAX_DETAIL_LENGTH
    assert "hunt" not in first.detail
    assert second.title.startswith("red")
    assert len(second.title) == MAX_TITLE_LENGTH
    assert second.detail == "a\n\tb"


async def test_hundreds_of_hostile_steps_leave_the_event_loop_time_for_others(
    harness: JobHarness, job: ClaimedJob
) -> None:
    text = "\x80sk-" * 4_000
    async with longest_turn() as longest, LogWriter(harness.link(job), job, CAP) as log:
        await asyncio.sleep(0)
        for _ in range(200):
            log.steps.record(Step(title=text, detail=text))
    assert len(await steps_of(harness, job)) == 200
    assert longest.cpu_seconds < 0.25


async def test_the_last_of_too_many_steps_says_so(harness: JobHarness, job: ClaimedJob) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.steps.record(Step(title="first", state="running", key="1"))
        for _ in range(MAX_STEPS + 5):
            log.steps.record(Step(title="again"))
        log.steps.record(Step(key="1", detail="it ended"))
    steps = await steps_of(harness, job)
    assert len(steps) == MAX_STEPS
    assert steps[0].detail == "it ended"
    assert steps[-1].title == "Further steps are not recorded: a job has at most 2,000."


async def test_a_later_attempt_replaces_the_steps(harness: JobHarness, job: ClaimedJob) -> None:
    for title in ("first attempt", "second attempt"):
        await remove_results(harness.db, job)
        async with LogWriter(harness.link(job), job, CAP) as log:
            log.steps.record(Step(title=title))
    assert [step.title for step in await steps_of(harness, job)] == ["second attempt"]


async def test_a_worker_that_adopts_the_agent_continues_its_steps(
    harness: JobHarness, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        log.steps.record(Step(title="make", state="running", key="1"))
    monkeypatch.setattr(ClaimedJob, "is_adopted", True)
    steps = new_recorder(harness, job)
    steps.record(Step(key="1", detail="the end of a step of the other worker"))
    steps.record(Step(title="make test", state="running", key="2"))
    assert await steps.flush()
    steps.record(Step(key="2"))
    assert await steps.flush()
    stored = [(step.sequence, step.title, step.state) for step in await steps_of(harness, job)]
    assert stored == [(1, "make", "unfinished"), (2, "make test", "succeeded")]


async def test_an_outage_delays_steps_and_loses_none(
    harness: JobHarness, job: ClaimedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable

    steps = new_recorder(harness, job)
    with monkeypatch.context() as outage:
        outage.setattr(harness.db, "transact", unavailable)
        steps.record(Step(title="make", state="running", key="1"))
        assert not await steps.flush()
        steps.record(Step(key="1"))
    assert await steps.flush()
    assert [step.state for step in await steps_of(harness, job)] == ["succeeded"]


async def test_a_worker_that_lost_its_claim_stores_no_steps(
    harness: JobHarness, job: ClaimedJob
) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        await finish_job(harness.db, job, Failed("agent_failed", ""))
        log.steps.record(Step(title="make"))
    assert await steps_of(harness, job) == []


async def test_a_reported_time_lies_within_the_run(harness: JobHarness, job: ClaimedJob) -> None:
    clock = Clock()
    async with LogWriter(harness.link(job), job, CAP, clock_ms=clock) as log:
        clock.now += 5_000
        for started_at in (1, 1_002_000, 2**60):
            log.steps.record(Step(title="make", started_at=started_at))
        log.steps.record(Step(title="make", duration_ms=1_000))
    times = [step.started_at for step in await steps_of(harness, job)]
    assert times == [1_000_000, 1_002_000, 1_005_000, 1_004_000]


async def test_steps_are_read_by_kind_and_in_pages(harness: JobHarness, job: ClaimedJob) -> None:
    async with LogWriter(harness.link(job), job, CAP) as log:
        for number in range(1, 7):
            log.steps.record(Step(kind="read" if number % 2 else "command", title=str(number)))

    async def titles(**selection: Any) -> str:
        steps = await read_steps(harness.db, job.id, **selection)
        return "".join(step.title for step in steps)

    assert await titles() == "123456"
    assert await titles(after=2, limit=3) == "345"
    assert await titles(skip=4) == "56"
    assert await titles(kind="read") == "135"
    assert await titles(kind="command", skip=1, limit=1) == "4"
    assert await titles(kind="command", after=4) == "6"
    assert await titles(kind="change") == ""


async def test_steps_are_counted_by_kind(harness: JobHarness, job: ClaimedJob) -> None:
    clock = Clock()
    async with LogWriter(harness.link(job), job, CAP, clock_ms=clock) as log:
        clock.now += 3_000
        for title in ("a.py", "b.py", "a.py"):
            log.steps.record(Step(kind="change", title=title))
        log.steps.record(Step(kind="command", title="make", state="failed"))
        for cost in (2**40, 2, None):
            log.steps.record(Step(kind="model", title="large", cost_nanousd=cost))
    first_at = 1_003_000
    assert await count_steps(harness.db, job.id) == {
        "change": StepTotal(steps=3, titles=2, first_at=first_at),
        "command": StepTotal(steps=1, titles=1, failed=1, first_at=first_at),
        "model": StepTotal(steps=3, titles=1, cost_nanousd=2**40 + 2, first_at=first_at),
    }
    assert await count_steps(harness.db, "job_0") == {}


def test_a_model_call_is_a_step_with_its_tokens_and_cost() -> None:
    usage = Usage(uncached=1_000, cached=11_345, output=456)
    report = CallReport(
        model="large", status=200, usage=usage, cost_nanousd=5_000_000, duration_ms=1_200
    )
    assert model_step(report) == Step(
        kind="model",
        title="large",
        detail="12,345 tokens in (11,345 cached), 456 out",
        duration_ms=1_200,
        cost_nanousd=5_000_000,
    )
    for status, reason in ((429, "status 429"), (None, "no response")):
        failed = model_step(
            CallReport(model="large", status=status, usage=None, cost_nanousd=None, duration_ms=5)
        )
        assert (failed.state, failed.detail, failed.cost_nanousd) == ("failed", reason, None)
