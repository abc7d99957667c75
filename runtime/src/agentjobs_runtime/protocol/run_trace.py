"""The span of a run. It ends on its worker, or once its work is published."""

from opentelemetry.trace import SpanKind

from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, Failed, Outcome
from agentjobs_runtime.tracing.spans import Attributes, fail, record_span, set_attributes


def run_attributes(job: ClaimedJob) -> Attributes:
    return {
        "agentjobs.organization.id": job.organization_id,
        "agentjobs.job.id": job.id,
        "agentjobs.repo": job.repo,
        "agentjobs.agent": job.agent,
        # Kept work is published without another attempt.
        "agentjobs.attempt": job.attempt + (job.kept_at is None),
    }


def record_run(job: ClaimedJob, span: str | None, started_at: int, outcome: Outcome | None) -> None:
    """None: the run was cut short."""
    kind = SpanKind.CONSUMER
    attributes = run_attributes(job)
    with record_span("run job", job.traceparent, span, started_at, kind, attributes) as run:
        if outcome is None:
            fail(run, "interrupted")
            return
        set_attributes(run, {"agentjobs.outcome": type(outcome).__name__.lower()})
        if isinstance(outcome, Completed):
            set_attributes(run, {"agentjobs.pull_request.url": outcome.pr_url})
        if isinstance(outcome, Failed):
            fail(run, outcome.code)
