"""The spans of a run: its wait in the queue, the run itself and its agent."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from opentelemetry.trace import Span

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Kept, Outcome
from agentjobs_runtime.protocol.run_trace import record_run, run_attributes
from agentjobs_runtime.tracing.spans import record_wait, span, within_span
from agentjobs_worker.link.publishing import RunPhases


@dataclass(slots=True)
class RunSpan:
    outcome: Outcome | None = None


@contextmanager
def run_span(job: ClaimedJob, phases: RunPhases) -> Iterator[RunSpan]:
    """The trace is that of the job's row, so that every worker continues the same one."""
    record_wait("queue", job.traceparent, job.queued_at, run_attributes(job))
    run = RunSpan()
    try:
        with within_span(phases.span):
            yield run
    finally:
        # The span of work that the service publishes ends there.
        if not isinstance(run.outcome, Kept):
            record_run(job, phases.span, phases.claimed_at, run.outcome)


def agent_span(agent: Agent) -> AbstractContextManager[Span]:
    """Attributes as in OpenTelemetry's conventions for GenAI."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": agent.id,
        "gen_ai.agent.name": agent.name,
        "gen_ai.provider.name": None if agent.model is None else agent.model.api,
    }
    return span(f"invoke_agent {agent.name}", attributes)
