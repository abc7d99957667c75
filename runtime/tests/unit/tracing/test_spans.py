"""Spans of the current task: without an export a trace is only passed on."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from agentjobs_runtime.problems import Problem
from agentjobs_runtime.tracing import spans
from agentjobs_runtime.tracing.trace_context import write_traceparent
from tests.support.recorded_spans import recorded_spans

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def recorded() -> Iterator[InMemorySpanExporter]:
    with recorded_spans() as exporter:
        yield exporter


def test_without_an_export_the_callers_trace_is_handed_on() -> None:
    with spans.continue_trace("request", TRACEPARENT) as request:
        assert write_traceparent(request) == spans.begin_trace() == TRACEPARENT
        with spans.span("part", {"a": 1}) as part:
            spans.set_attributes(part, {"b": 2})
            spans.fail(part, "timeout")
            assert write_traceparent(part) == TRACEPARENT
    assert spans.current_traceparent() is None
    assert spans.begin_trace() is None


def test_parts_are_children_and_failures_name_their_code(recorded: InMemorySpanExporter) -> None:
    def respond() -> None:
        with spans.continue_trace("request", TRACEPARENT):
            with spans.span("part", {"a": 1, "unknown": None}):
                pass
            raise Problem("queue_full", "a message that may quote a prompt")

    with pytest.raises(Problem):
        respond()
    part, request = recorded.get_finished_spans()
    assert part.attributes == {"a": 1}
    assert part.parent is not None
    assert part.parent.span_id == request.context.span_id
    assert not part.parent.is_remote
    assert f"{request.context.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert request.parent is not None
    assert request.parent.is_remote
    assert request.attributes == {"error.type": "queue_full"}
    assert "prompt" not in request.to_json() + part.to_json()


def test_a_job_without_a_request_begins_a_trace(recorded: InMemorySpanExporter) -> None:
    traceparent = spans.begin_trace()
    (created,) = recorded.get_finished_spans()
    assert created.parent is None
    assert traceparent is not None
    assert traceparent.startswith(
        f"00-{created.context.trace_id:032x}-{created.context.span_id:016x}-"
    )


def test_a_wait_never_ends_before_it_starts(recorded: InMemorySpanExporter) -> None:
    spans.record_wait("queue", TRACEPARENT, 9_999_999_999_999)
    (queue,) = recorded.get_finished_spans()
    assert queue.start_time is not None
    assert queue.end_time is not None
    assert queue.start_time <= queue.end_time


async def test_tasks_do_not_see_each_others_traces(recorded: InMemorySpanExporter) -> None:
    async def run(trace_id: str) -> str | None:
        with spans.continue_trace("run", f"00-{trace_id}-00f067aa0ba902b7-01"):
            await asyncio.sleep(0)
            return spans.begin_trace()

    first, second = await asyncio.gather(run("1" * 32), run("2" * 32))
    assert first is not None
    assert second is not None
    assert (first.split("-")[1], second.split("-")[1]) == ("1" * 32, "2" * 32)


async def test_entering_is_a_span_and_the_exit_sees_errors(recorded: InMemorySpanExporter) -> None:
    seen = []

    @asynccontextmanager
    async def opening():
        try:
            yield "open"
        except ValueError as error:
            seen.append(error)
            raise

    async def use() -> None:
        async with spans.traced_entry("open", opening()) as value:
            assert value == "open"
            assert [span.name for span in recorded.get_finished_spans()] == ["open"]
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        await use()
    assert len(seen) == 1


def test_unsampled_traces_are_handed_on_as_unsampled() -> None:
    with recorded_spans(ALWAYS_OFF) as recorded:
        traceparent = spans.begin_trace()
        assert traceparent is not None
        assert int(traceparent[-2:], 16) & 1 == 0
        with spans.continue_trace("request", TRACEPARENT) as request:
            handed_on = write_traceparent(request)
        assert handed_on is not None
        assert handed_on.startswith(TRACEPARENT[:35])
        assert handed_on.endswith("-00")
        assert recorded.get_finished_spans() == ()
