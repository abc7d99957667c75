"""The only code that changes a job's status: row, events and notifications in one transaction."""

from typing import Any

import msgspec

from agentjobs.jobs.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    QUEUED,
    RUNNING,
    JobStatus,
    sources_of,
)
from agentjobs.store.database import Transaction
from agentjobs.webhooks import events

# Webhooks report every end without a pull request as `job.failed`.
_EVENT_OF: dict[JobStatus, str] = {
    QUEUED: events.JOB_QUEUED,
    RUNNING: events.JOB_STARTED,
    COMPLETED: events.JOB_COMPLETED,
    FAILED: events.JOB_FAILED,
    CANCELLED: events.JOB_FAILED,
}

_NO_LEASE: dict[str, Any] = {
    "lease_owner": None,
    "lease_expires_at": None,
    "credential_hash": None,
}

_CANCELLED_MESSAGE = "The job was cancelled."
_MAX_MESSAGE_LENGTH = 8_000


class Change(msgspec.Struct, frozen=True):
    """One transition. `fence` is the claim that makes it; None for the service itself."""

    job_id: str
    to: JobStatus
    at_ms: int
    fence: int | None = None
    columns: dict[str, Any] = {}
    review_requested: bool = False


def to_cancelled(job_id: str, now: int, fence: int | None = None) -> Change:
    columns = {"completed_at": now, "error_code": "cancelled", "error_message": _CANCELLED_MESSAGE}
    return Change(job_id, CANCELLED, now, fence, columns)


def to_failed(job_id: str, now: int, code: str, message: str, fence: int | None = None) -> Change:
    columns = {
        "completed_at": now,
        "error_code": code,
        "error_message": message[:_MAX_MESSAGE_LENGTH],
    }
    return Change(job_id, FAILED, now, fence, columns)


def to_queued(job_id: str, now: int, fence: int, **columns: int) -> Change:
    return Change(job_id, QUEUED, now, fence, {"queued_at": now, **columns})


async def release_claim(tx: Transaction, job_id: str, fence: int, lost_workers: int = 0) -> bool:
    """Release a job whose agent never started. Clients see no change."""
    changed = await tx.execute(
        "UPDATE jobs SET lease_owner = NULL, lease_expires_at = NULL, credential_hash = NULL,"
        " fence = fence + 1, lost_workers = lost_workers + :lost_workers"
        " WHERE id = :job_id AND fence = :fence AND status = 'queued'",
        job_id=job_id,
        fence=fence,
        lost_workers=lost_workers,
    )
    tx.announce("jobs")
    return changed > 0


async def apply(tx: Transaction, change: Change) -> bool:
    """Return False when the status does not allow the change, or the claim is lost."""
    columns = {**change.columns, "status": change.to}
    if change.to != RUNNING:
        columns |= _NO_LEASE
    emitted = [_EVENT_OF[change.to]]
    if change.review_requested:
        emitted.append(events.PR_REVIEW_REQUESTED)
    row = await tx.fetch_one(
        _update(tuple(columns), change.to, fenced=change.fence is not None),
        **columns,
        job_id=change.job_id,
        emitted=len(emitted),
        **({} if change.fence is None else {"held_fence": change.fence}),
    )
    if row is None:
        return False
    first = row["last_sequence"] - len(emitted) + 1
    for sequence, event in enumerate(emitted, first):
        await events.record_event(
            tx,
            event,
            organization_id=row["organization_id"],
            job_id=change.job_id,
            sequence=sequence,
            repo=row["repo"],
            pr_url=row["pr_url"],
            at_ms=change.at_ms,
        )
    tx.announce(f"job:{change.job_id}")
    if change.to != RUNNING:
        # A slot is free, or a job is waiting again.
        tx.announce("jobs")
    return True


def _update(columns: tuple[str, ...], to: JobStatus, *, fenced: bool) -> str:
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    sources = ", ".join(f"'{status}'" for status in sources_of(to))
    # Only names and statuses from this package are formatted; values are parameters.
    is_claimed = " AND fence = :held_fence AND lease_owner IS NOT NULL" if fenced else ""
    # Ending a claim raises the fence, so that its former holder can write nothing.
    fence = "" if to == RUNNING else ", fence = fence + 1"
    return (
        f"UPDATE jobs SET {assignments}{fence}, last_sequence = last_sequence + :emitted"
        f" WHERE id = :job_id AND status IN ({sources}){is_claimed}"
        " RETURNING organization_id, last_sequence, repo, pr_url"
    )
