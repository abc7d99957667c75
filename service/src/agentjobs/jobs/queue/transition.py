"""The only code that changes a job's status: row, events and notifications in one transaction."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.jobs.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FINAL,
    QUEUED,
    RUNNING,
    JobStatus,
    list_sources,
)
from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks import events

# Webhooks report every end without a pull request as `job.failed`.
_EVENT_OF: dict[JobStatus, str] = {
    QUEUED: events.JOB_QUEUED,
    RUNNING: events.JOB_STARTED,
    COMPLETED: events.JOB_COMPLETED,
    FAILED: events.JOB_FAILED,
    CANCELLED: events.JOB_FAILED,
}

# Ending a claim raises the fence, so that its former holder can write nothing.
_END_CLAIM = (
    "UPDATE job_queue AS q SET lease_owner = NULL, lease_expires_at = NULL, credential_hash = NULL,"
    " fence = fence + 1"
)
# What a change to each status does with the job's row in the queue, which it locks before that in
# `jobs`. `from_rows` is a table `v` of changes on PostgreSQL.
_LEAVE_QUEUE = "DELETE FROM job_queue AS q{using_rows}{where} RETURNING job_id"
_CLAIM_CHANGE: dict[JobStatus, str] = {
    RUNNING: "SELECT job_id FROM job_queue q{and_rows}{where} /*postgresql FOR UPDATE OF q */",
    QUEUED: f"{_END_CLAIM}{{from_rows}}{{where}} RETURNING job_id",
    **dict.fromkeys(FINAL, _LEAVE_QUEUE),
}
# The PostgreSQL types of the columns that changes set; the others are `bigint`.
_TYPES = dict.fromkeys(
    (
        "base_commit",
        "error_code",
        "error_message",
        "head_commit",
        "id",
        "phases",
        "pr_url",
        "prompt",
        "verification",
    ),
    "text",
)

_CONDITION_OF: dict[JobStatus, str] = {
    # The agent never runs again for work that is done.
    RUNNING: " AND j.kept_at IS NULL",
    # A queued job completes only by publishing the work that was kept.
    COMPLETED: " AND (j.status <> 'queued' OR j.kept_at IS NOT NULL)",
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


def to_reported(job_id: str, now: int, fence: int | None = None) -> Change:
    """Completed without a pull request, so no review is requested."""
    return Change(job_id, COMPLETED, now, fence, {"completed_at": now})


def to_queued(job_id: str, now: int, fence: int, **columns: int) -> Change:
    return Change(job_id, QUEUED, now, fence, {"queued_at": now, **columns})


async def release_claim(tx: Transaction, job_id: str, fence: int) -> bool:
    """Release a job whose agent never started. Clients see no change."""
    changed = await tx.execute(
        f"{_END_CLAIM} WHERE q.job_id = :job_id AND q.fence = :fence"
        " AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = q.job_id AND j.status = 'queued')",
        job_id=job_id,
        fence=fence,
    )
    tx.announce("jobs")
    return changed > 0


async def apply(tx: Transaction, change: Change) -> bool:
    """Return False when the status does not allow the change, or the claim is lost."""
    (is_applied,) = await apply_all(tx, [change])
    return is_applied


async def apply_all(tx: Transaction, changes: Sequence[Change]) -> list[bool]:
    """The same for changes of different jobs, with a few statements for all of them."""
    rows: dict[str, Row] = {}
    for (to, columns), group in _by_statement(changes).items():
        for row in await _store(tx, to, columns, [_parameters(change) for change in group]):
            rows[row["id"]] = row
    applied = [change for change in changes if change.job_id in rows]
    await events.record_events(
        tx, [event for change in applied for event in _events(change, rows[change.job_id])]
    )
    await _delete_kept_work(tx, applied, rows)
    tx.announce(*(f"job:{change.job_id}" for change in applied))
    if any(change.to == QUEUED for change in applied):
        # After an end, the worker itself looks for the next job.
        tx.announce("jobs")
    return [change.job_id in rows for change in changes]


async def _delete_kept_work(
    tx: Transaction, changes: Iterable[Change], rows: Mapping[str, Row]
) -> None:
    """The work that was kept for a job ends with it."""
    ended = [change.job_id for change in changes if change.to in FINAL]
    kept = [job_id for job_id in ended if rows[job_id]["kept_at"] is not None]
    if kept:
        await tx.execute(
            "DELETE FROM kept_work WHERE job_id IN (SELECT value FROM each(:ids))", ids=kept
        )


def _by_statement(
    changes: Iterable[Change],
) -> dict[tuple[JobStatus, tuple[str, ...]], list[Change]]:
    groups: dict[tuple[JobStatus, tuple[str, ...]], list[Change]] = {}
    # Locks are taken in the order of the identifiers.
    for change in sorted(changes, key=lambda change: change.job_id):
        groups.setdefault((change.to, tuple(sorted(change.columns))), []).append(change)
    return groups


def _parameters(change: Change) -> dict[str, Any]:
    emitted = 2 if change.review_requested else 1
    return {
        **change.columns,
        "id": change.job_id,
        "held_fence": change.fence,
        "emitted": emitted,
    }


async def _store(
    tx: Transaction, to: JobStatus, columns: tuple[str, ...], changes: Sequence[Mapping[str, Any]]
) -> list[Row]:
    if tx.engine == "sqlite":
        rows = await _claim_change(to).fetch(tx, changes)
        changed = {row["job_id"] for row in rows}
        changes = [change for change in changes if change["id"] in changed]
    return await _update(to, columns).fetch(tx, changes)


@functools.cache
def _claim_change(to: JobStatus) -> BatchStatement:
    sources = ", ".join(f"'{status}'" for status in list_sources(to))
    where = (
        # Only statuses from this package are formatted; values are parameters.
        " WHERE q.job_id = {id} AND (CAST({held_fence} AS BIGINT) IS NULL"
        " OR (q.fence = {held_fence} AND q.lease_owner IS NOT NULL))"
        f" AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = q.job_id AND j.status IN ({sources})"
        f"{_CONDITION_OF.get(to, '')})"
    )
    statement = _CLAIM_CHANGE[to]
    return BatchStatement(
        {"id": "text", "held_fence": "bigint"},
        one=statement.format(
            and_rows="",
            from_rows="",
            using_rows="",
            where=where.format(id=":id", held_fence=":held_fence"),
        ),
        many=statement.format(
            and_rows=", {rows}",
            from_rows=" FROM {rows}",
            using_rows=" USING {rows}",
            where=where.format(id="v.id", held_fence="v.held_fence"),
        ),
    )


@functools.cache
def _update(to: JobStatus, columns: tuple[str, ...]) -> BatchStatement:
    """The statement for a change, which on PostgreSQL changes the claim too."""
    names = (*columns, "emitted", "id", "held_fence")
    statement = (
        f"UPDATE jobs SET {{assignments}}status = '{to}',"
        " last_sequence = last_sequence + {emitted}{source} WHERE jobs.id = {id} RETURNING jobs.id,"
        " jobs.organization_id, jobs.last_sequence, jobs.repo, jobs.pr_url, jobs.kept_at"
    )
    one = statement.format(
        assignments=_assignments(columns, ":"), source="", id=":id", emitted=":emitted"
    )
    many = statement.format(
        assignments=_assignments(columns, "v."),
        source=" FROM {rows}, claim",
        id="v.id AND v.id = claim.job_id",
        emitted="v.emitted",
    )
    return BatchStatement(
        {name: _TYPES.get(name, "bigint") for name in names},
        one=one,
        many=f"WITH claim AS ({_claim_change(to).many}) {many}",
    )


def _assignments(columns: Iterable[str], prefix: str) -> str:
    return "".join(f"{name} = {prefix}{name}, " for name in columns)


def _events(change: Change, row: Row) -> Iterator[events.JobEvent]:
    emitted = [_EVENT_OF[change.to]]
    if change.review_requested:
        emitted.append(events.PR_REVIEW_REQUESTED)
    for sequence, event in enumerate(emitted, row["last_sequence"] - len(emitted) + 1):
        yield events.JobEvent(
            event=event,
            organization_id=row["organization_id"],
            job_id=change.job_id,
            sequence=sequence,
            repo=row["repo"],
            pr_url=row["pr_url"],
            at_ms=change.at_ms,
        )
