"""A job as text for people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentjobs_client import Job, Step

STEP_COLUMNS = ("started", "kind", "step", "result", "duration", "cost")
COLUMNS = ("job", "status", "repo", "agent", "created", "result", "labels")
_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_QUEUE_REASONS = {
    "paused": "the operator has paused jobs",
    "plan_limit": "the plan's concurrent job limit is reached",
    "repo_limit": "the repository's concurrent job limit is reached",
    "agent_limit": "the agent's concurrent job limit is reached",
    "platform_unreachable": "the platform of the repository does not respond",
    "platform_refused": "the platform does not accept the finished work",
    "tracker_unreachable": "the tracker of its ticket does not respond",
    "environment_building": "the environment of the repository is being built",
    "no_worker": (
        "no running worker is ready for this agent and has the tags that the repository requires"
    ),
    "disk_full": "the disks of the workers are nearly full",
}


def row(job: "Job") -> tuple[Any, ...]:
    created = job.raw.get("created_at")
    return (job.job_id, job.status, job.repo, job.agent, created, result(job), labels(job))


def result(job: "Job") -> str | None:
    if job.is_completed:
        return job.pr_url or "report"
    return job.error.code if job.error else job.queue_reason


def step_row(step: "Step") -> tuple[Any, ...]:
    outcome = f"exit {step.exit_code}" if step.exit_code else step.state
    cost = None if step.cost_usd is None else f"${step.cost_usd:.4f}"
    started = step.raw.get("started_at")
    return (started, step.kind, step.title, outcome, duration(step.duration_ms), cost)


def labels(job: "Job") -> str | None:
    return ", ".join(f"{key}={value}" for key, value in job.labels.items()) or None


def details(job: "Job") -> list[tuple[str, Any]]:
    """Names as in the API, values for people; without what is empty."""
    fields: dict[str, Any] = {
        **job.raw,
        "error": f"{job.error.code}: {job.error.message}" if job.error else None,
        "labels": labels(job),
        "queue_reason": waiting_reason(job),
        "elapsed_ms": duration(job.elapsed_ms),
        "estimated_start_ms": duration(job.estimated_start_ms),
        "warnings": "; ".join(job.warnings),
        "report_markdown": _report_hint(job),
        "report_json": None,
        "phases": phases(job),
    }
    return [
        (name.removesuffix("_ms"), _inline(value) if isinstance(value, Mapping) else value)
        for name, value in fields.items()
        if value not in (None, "", [], {})
    ]


def waiting_reason(job: "Job") -> str | None:
    if job.queue_reason is None:
        return None
    return _QUEUE_REASONS.get(job.queue_reason, job.queue_reason)


def phases(job: "Job") -> str | None:
    """Each attempt with the durations of its phases."""
    attempts: dict[int, list[str]] = {}
    for phase in job.phases:
        end = f" ({phase.interruption})" if phase.interruption else ""
        line = f"{phase.phase} {duration(phase.elapsed_ms)}{end}"
        attempts.setdefault(phase.attempt, []).append(line)
    return "; ".join(", ".join(lines) for lines in attempts.values()) or None


def progress(job: "Job") -> str:
    """What the job does now, in one line."""
    parts = [job.status]
    if job.status == "queued":
        if job.queue_position is not None:
            parts.append(f"position {job.queue_position}")
        if job.estimated_start_ms:
            parts.append(f"starts in about {duration(job.estimated_start_ms)}")
        if reason := waiting_reason(job):
            parts.append(reason)
    elif job.elapsed_ms is not None:
        if job.phases and job.phases[-1].ended_at is None:
            parts.append(job.phases[-1].phase.replace("_", " "))
        parts.append(str(duration(job.elapsed_ms)))
    return ", ".join(parts)


def duration(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    if milliseconds < _SECOND_MS:
        return f"{milliseconds} ms"
    if milliseconds < _MINUTE_MS:
        return f"{milliseconds // _SECOND_MS} s"
    if milliseconds < _HOUR_MS:
        return f"{milliseconds // _MINUTE_MS} min {milliseconds % _MINUTE_MS // _SECOND_MS} s"
    return f"{milliseconds // _HOUR_MS} h {milliseconds % _HOUR_MS // _MINUTE_MS} min"


def _report_hint(job: "Job") -> str | None:
    if job.report_markdown is None:
        return None
    return f"{len(job.report_markdown)} characters; see `agentjobs jobs report {job.job_id}`"


def _inline(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value not in (None, ""))
