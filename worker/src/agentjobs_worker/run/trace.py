"""The spans of a run: its wait in the queue, the run itself and its agent."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry.trace import Span, SpanKind

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, Failed, Outcome
from agentjobs_runtime.tracing.spans import (
    Attributes,
    continue_trace,
    fail,
    record_wait,
    set_attributes,
    span,
)


@contextmanager
def run_span(job: ClaimedJob) -> Iterator[Span]:
    """The trace is that of the job's row, so that every worker continues the same one."""
    attributes: Attributes = {
        "agentjobs.organization.id": job.organization_id,
        "agentjobs.job.id": job.id,
        "agentjobs.repo": job.repo,
        "agentjobs.agent": job.agent,
        # Kept work is published without another attempt.
        "agentjobs.attempt": job.attempt + (job.kept_at is None),
    }
    record_wait("queue", job.traceparent, job.queued_at, attributes)
    with continue_trace("run job", job.traceparent, attributes, kind=SpanKind.CONSUMER) as run:
        yield run


def record_outcome(run: Span, outcome: Outcome) -> None:
    set_attributes(run, {"agentjobs.outcome": type(outcome).__name__.lower()})
    if isinstance(outcome, Completed):
        set_attributes(run, {"agentjobs.pull_request.url": outcome.pr_url})
    if isinstance(outcome, Failed):
        fail(run, outcome.code)


def agent_span(agent: Agent) -> AbstractContextManager[Span]:
    """Attributes as in OpenTelemetry's conventions for GenAI."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": agent.id,
        "gen_ai.agent.name": agent.name,
        "gen_ai.provider.name": None if agent.model is None else agent.model.api,
    }
    return span(f"invoke_agent {agent.name}", attributes)
