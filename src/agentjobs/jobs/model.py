"""What a job looks like to those who ask: requests, views, receipts. No behaviour."""

from typing import Any

import msgspec

from agentjobs.clock import iso_utc, iso_utc_or_none
from agentjobs.jobs.run.verification import Verification, stored_verification
from agentjobs.jobs.states import RETRYABLE, JobStatus
from agentjobs.store.database import Row


class CreateJobRequest(msgspec.Struct, frozen=True):
    repo: str
    agent: str
    ticket_id: str | None = None
    config_override: dict[str, Any] | None = None


class Receipt(msgspec.Struct, frozen=True):
    job_id: str
    status: JobStatus
    estimated_start_ms: int


class JobError(msgspec.Struct, frozen=True):
    code: str
    message: str
    retryable: bool


class Usage(msgspec.Struct, frozen=True):
    """What the models cost so far; a request under way counts with what is reserved for it."""

    input_tokens: int
    output_tokens: int
    cost_usd: float
    requests: int


class CausingAdvisory(msgspec.Struct, frozen=True):
    """One that speaks for all that are about the same fault."""

    id: str
    severity: str
    aliases: tuple[str, ...] = ()


class Cause(msgspec.Struct, frozen=True):
    """Why the service itself asked for a job: a vulnerable package, and where it goes."""

    ecosystem: str
    package: str
    versions: tuple[str, ...]
    manifest: str
    fix_version: str
    advisories: tuple[CausingAdvisory, ...]


class TicketFacts(msgspec.Struct, frozen=True):
    """What a tracker said of the job's ticket."""

    title: str
    url: str
    labels: tuple[str, ...] = ()


class JobView(msgspec.Struct, frozen=True):
    job_id: str
    status: JobStatus
    agent: str
    pr_url: str | None
    pr_number: int | None
    started_at: str | None
    completed_at: str | None
    repo: str
    ticket_id: str | None
    created_at: str
    attempt: int
    error: JobError | None
    usage: Usage | None
    queue_reason: str | None
    verification: Verification | None = None
    # The job whose pull request this one goes on with.
    follows: str | None = None
    cause: Cause | None = None
    # open, merged or closed.
    pr_state: str | None = None
    ticket: TicketFacts | None = None


class EventView(msgspec.Struct, frozen=True):
    id: str
    event: str
    sequence: int
    timestamp: str
    payload: msgspec.Raw


class LogChunk(msgspec.Struct, frozen=True):
    sequence: int
    created_at: int
    text: str


def job_view(row: Row, queue_reason: str | None = None) -> JobView:
    return JobView(
        job_id=row["id"],
        status=row["status"],
        agent=row["agent"],
        pr_url=row["pr_url"],
        pr_number=row["pr_number"],
        started_at=iso_utc_or_none(row["started_at"]),
        completed_at=iso_utc_or_none(row["completed_at"]),
        repo=row["repo"],
        ticket_id=row["ticket_id"],
        created_at=iso_utc(row["created_at"]),
        attempt=row["attempt"],
        error=_job_error(row["error_code"], row["error_message"]),
        usage=None if row["usage"] is None else msgspec.json.decode(row["usage"], type=Usage),
        queue_reason=queue_reason,
        verification=stored_verification(row["verification"]),
        follows=row["follows"],
        cause=stored_cause(row["cause"]),
        pr_state=row["pr_state"],
        ticket=stored_ticket(row["ticket"]),
    )


def stored_cause(text: str | None) -> Cause | None:
    return None if text is None else msgspec.json.decode(text, type=Cause)


def stored_ticket(text: str | None) -> TicketFacts | None:
    return None if text is None else msgspec.json.decode(text, type=TicketFacts)


def _job_error(code: str | None, message: str | None) -> JobError | None:
    if code is None:
        return None
    return JobError(code, message or "", RETRYABLE.get(code, False))
