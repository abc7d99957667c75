"""Calls of models as steps: the gateway knows them of every agent, with their cost."""

from agentjobs.gateway.usage import CallReport, Usage
from agentjobs_runtime.agents.steps import Step, to_state


def model_step(report: CallReport) -> Step:
    failed = report.status is None or report.status >= 400
    return Step(
        kind="model",
        title=report.model,
        detail=_failure(report.status) if failed else _tokens(report.usage),
        state=to_state(failed=failed),
        duration_ms=report.duration_ms,
        cost_nanousd=report.cost_nanousd,
    )


def _failure(status: int | None) -> str:
    return "no response" if status is None else f"status {status}"


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return ""
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out"
