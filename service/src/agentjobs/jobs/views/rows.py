"""The row of a job that the API shows: its columns, and how they become a response."""

import msgspec

from agentjobs.jobs.model import (
    JobError,
    JobView,
    Usage,
    stored_environment,
    stored_labels,
    stored_override,
    stored_ticket,
    stored_warnings,
)
from agentjobs.jobs.phases import JobTimes, PhaseView, phase_views
from agentjobs.jobs.queue.claim import is_on_worker
from agentjobs.jobs.states import RETRYABLE, JobStatus
from agentjobs.store.database import Row, column_values
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none, now_ms
from agentjobs_runtime.protocol.cause import stored_cause
from agentjobs_runtime.protocol.verification import stored_verification

# Evaluated only for active jobs.
IS_CLAIMED = (
    "(j.status = 'running' OR (j.status = 'queued' AND EXISTS (SELECT 1 FROM job_queue q"
    " WHERE q.job_id = j.id AND q.lease_owner IS NOT NULL)))"
)
# Evaluated only for waiting jobs.
_ACTIVE = (
    "CASE WHEN q.job_id IS NOT NULL THEN"
    " (SELECT COUNT(*) FROM job_queue a /*sqlite INDEXED BY job_queue_leased */"
    f"  WHERE {is_on_worker('a')} AND a.organization_id = j.organization_id) END"
)
_REPO_ACTIVE = (
    "CASE WHEN r.max_concurrent_jobs IS NOT NULL THEN"
    " (SELECT COUNT(*) FROM job_queue a /*sqlite INDEXED BY job_queue_leased */"
    f"  WHERE {is_on_worker('a')} AND a.organization_id = j.organization_id"
    "  AND a.repo_id = j.repo_id) END"
)
_PULL_STATE = (
    "CASE WHEN j.pr_number IS NOT NULL THEN"
    " (SELECT p.state FROM pulls p WHERE p.repo_id = j.repo_id AND p.number = j.pr_number) END"
)


# How far a position is counted: the count is part of every read of a waiting job.
_MAX_POSITION = 1_000
_QUEUE_POSITION = (
    "CASE WHEN q.job_id IS NOT NULL THEN (SELECT COUNT(*) FROM"
    " (SELECT 1 FROM job_queue w /*sqlite INDEXED BY job_queue_waiting_in_order */"
    "  WHERE w.lease_owner IS NULL AND w.organization_id = q.organization_id"
    "  AND (w.queue_order, w.job_id) <= (q.queue_order, q.job_id)"
    f" /*postgresql ORDER BY w.queue_order, w.job_id */ LIMIT {_MAX_POSITION + 1}) AS ahead) END"
)


class JobRow(msgspec.Struct, frozen=True, gc=False):
    """A row of `SELECT_JOBS` or `SELECT_JOB`, with the columns in their order."""

    id: str
    status: JobStatus
    agent: str
    pr_url: str | None
    pr_number: int | None
    started_at: int | None
    completed_at: int | None
    repo: str
    ticket_id: str | None
    created_at: int
    attempt: int
    error_code: str | None
    error_message: str | None
    usage: str | None
    verification: str | None
    follows: str | None
    cause: str | None
    ticket: str | None
    warnings: str | None
    environment: str | None
    branch: str
    base_commit: str | None
    head_commit: str | None
    config_override: str
    labels: str | None
    # Only of a running job.
    running_ms: int | None
    organization_id: str
    plan: str
    paused_at: int | None
    pr_state: str | None
    # The jobs of its organization that are running; only of a job that waits.
    organization_active: int | None
    required_tags: str | None
    max_concurrent_jobs: int | None
    repo_active: int | None
    queue_position: int | None
    queued_at: int
    is_claimed: int
    phases: str | None
    kept_at: int | None


_EXPRESSIONS = {
    "running_ms": f"CASE WHEN j.status = 'running' THEN {DATABASE_NOW} - j.started_at END",
    "plan": "o.plan",
    "paused_at": "o.paused_at",
    "pr_state": _PULL_STATE,
    "organization_active": _ACTIVE,
    "required_tags": "r.required_tags",
    "max_concurrent_jobs": "r.max_concurrent_jobs",
    "repo_active": _REPO_ACTIVE,
    "is_claimed": "j.status IN ('queued', 'running') AND q.job_id IS NULL",
}


def _select(**others: str) -> str:
    expressions = {**_EXPRESSIONS, **others}
    columns = [expressions.get(name, f"j.{name}") for name in JobRow.__struct_fields__]
    return (
        f"SELECT {', '.join(columns)} FROM jobs j JOIN organizations o ON o.id = j.organization_id"
        " LEFT JOIN job_queue q ON q.job_id = j.id AND j.status = 'queued'"
        "  AND q.lease_owner IS NULL"
        " LEFT JOIN repos r ON r.id = q.repo_id"
    )


# Both have a parameter `:now`.
SELECT_JOBS = _select(queue_position="NULL", phases="NULL")
SELECT_JOB = _select(queue_position=_QUEUE_POSITION)


def job_row(row: Row) -> JobRow:
    return JobRow(*column_values(row))


def job_view(row: JobRow, queue_reason: str | None = None) -> JobView:
    return JobView(
        job_id=row.id,
        status=row.status,
        agent=row.agent,
        pr_url=row.pr_url,
        pr_number=row.pr_number,
        started_at=iso_utc_or_none(row.started_at),
        completed_at=iso_utc_or_none(row.completed_at),
        repo=row.repo,
        ticket_id=row.ticket_id,
        created_at=iso_utc(row.created_at),
        attempt=row.attempt,
        error=_job_error(row.error_code, row.error_message),
        usage=None if row.usage is None else msgspec.json.decode(row.usage, type=Usage),
        queue_reason=queue_reason,
        verification=stored_verification(row.verification),
        follows=row.follows,
        cause=stored_cause(row.cause),
        pr_state=row.pr_state,
        ticket=stored_ticket(row.ticket),
        warnings=stored_warnings(row.warnings),
        environment=stored_environment(row.environment),
        branch=row.branch,
        base_commit=row.base_commit,
        head_commit=row.head_commit,
        config_override=stored_override(row.config_override),
        labels=stored_labels(row.labels),
        elapsed_ms=_elapsed_ms(row),
        queue_position=_position(row.queue_position),
    )


def build_phases(row: JobRow) -> tuple[PhaseView, ...]:
    times = JobTimes(row.status, bool(row.is_claimed), row.queued_at, row.completed_at)
    return phase_views(row.phases, times, now_ms())


def _position(counted: int | None) -> int | None:
    return None if counted is None or counted > _MAX_POSITION else counted


def _elapsed_ms(row: JobRow) -> int | None:
    elapsed = row.running_ms
    if row.completed_at is not None and row.started_at is not None:
        elapsed = row.completed_at - row.started_at
    # A clock may have been set back.
    return None if elapsed is None else max(elapsed, 0)


def _job_error(code: str | None, message: str | None) -> JobError | None:
    if code is None:
        return None
    return JobError(code, message or "", RETRYABLE.get(code, False))
