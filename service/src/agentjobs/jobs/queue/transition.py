"""The only code that changes a job's status: row, events and notifications in one transaction."""

import functools
from collections.abc import Iterable, Iterator, Sequence
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
from agentjobs.store.batch_statement import BatchStatement, row_parameters, rows_source
from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks import events
from agentjobs_runtime.clock import iso_utc

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

# The events of a change; `behind` counts from the last one.
_EMITTED = {
    **dict.fromkeys(("id", "job_id", "event", "timestamp"), "text"),
    **dict.fromkeys(("behind", "created_at"), "bigint"),
}

_CONDITION_OF: dict[JobStatus, str] = {
    # The agent never runs again for work that is done.
    QUEUED: " AND j.kept_at IS NULL",
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


async def apply_all(
    tx: Transaction, changes: Sequence[Change], *, is_last: bool = False
) -> list[bool]:
    """The same for changes of different jobs, with a few statements for all of them; `is_last`: no
    statement follows."""
    groups = _by_statement(changes)
    store = _store_in_steps if tx.engine == "sqlite" else _store_at_once
    rows: set[str] = set()
    for number, ((to, columns), group) in enumerate(groups.items(), 1):
        rows |= await store(tx, to, columns, group, is_last=is_last and number == len(groups))
    applied = [change for change in changes if change.job_id in rows]
    tx.announce(*(f"job:{change.job_id}" for change in applied))
    if any(change.to == QUEUED for change in applied):
        # After an end, the worker itself looks for the next job.
        tx.announce("jobs")
    return [change.job_id in rows for change in changes]


async def _store_in_steps(
    tx: Transaction,
    to: JobStatus,
    columns: tuple[str, ...],
    changes: Sequence[Change],
    *,
    is_last: bool,  # noqa: ARG001 - on SQLite a statement costs no round trip
) -> set[str]:
    """The jobs that were changed."""
    claims = await _claim_change(to).fetch(tx, [_parameters(change) for change in changes])
    changed = {row["job_id"] for row in claims}
    changes = [change for change in changes if change.job_id in changed]
    updated = await _update(to, columns).fetch(tx, [_parameters(change) for change in changes])
    rows = {row["id"]: row for row in updated}
    await events.record_events(
        tx, [event for change in changes for event in _events(change, rows[change.job_id])]
    )
    if to in FINAL and (kept := [id_ for id_, row in rows.items() if row["kept_at"] is not None]):
        # The work that was kept for a job ends with it.
        await tx.execute(
            "DELETE FROM kept_work WHERE job_id IN (SELECT value FROM each(:ids))", ids=kept
        )
    return changed


async def _store_at_once(
    tx: Transaction,
    to: JobStatus,
    columns: tuple[str, ...],
    changes: Sequence[Change],
    *,
    is_last: bool,
) -> set[str]:
    """The same in one statement, for PostgreSQL."""
    statement, names = _update_at_once(to, columns)
    run = tx.execute_last if is_last else tx.fetch_all
    emitted = [row for change in changes for row in _emitted(change)]
    rows = await run(
        statement,
        **row_parameters(names, [_parameters(change) for change in changes]),
        **row_parameters(_EMITTED, emitted, "e_"),
    )
    organizations = {row["organization_id"] for row in rows}
    with_deliveries = any(row["has_deliveries"] for row in rows)
    events.announce_stored(tx, organizations, with_deliveries=with_deliveries)
    return {row["id"] for row in rows}


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
    names = (*columns, "emitted", "id")
    statement = (
        f"UPDATE jobs SET {{assignments}}status = '{to}',"
        " last_sequence = last_sequence + {emitted}{source} WHERE jobs.id = {id} RETURNING jobs.id,"
        " jobs.organization_id, jobs.last_sequence, jobs.repo, jobs.pr_url, jobs.kept_at"
    )
    return BatchStatement(
        {name: _TYPES.get(name, "bigint") for name in names},
        one=statement.format(
            assignments=_assignments(columns, ":"), source="", id=":id", emitted=":emitted"
        ),
        many=statement.format(
            assignments=_assignments(columns, "v."),
            source=" FROM {rows}, claim",
            id="v.id AND v.id = claim.job_id",
            emitted="v.emitted",
        ),
    )


@functools.cache
def _update_at_once(to: JobStatus, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The statement and its parameters: claim, job, events, deliveries and kept work."""
    # The work that was kept for a job ends with it.
    delete_kept = "DELETE FROM kept_work k USING changed c WHERE k.job_id = c.id"
    kept = f", kept AS ({delete_kept} AND c.kept_at IS NOT NULL)" if to in FINAL else ""
    statement = (
        f"WITH claim AS ({_claim_change(to).many}), changed AS ({_update(to, columns).many}),"
        " emitted AS (SELECT v.job_id, c.last_sequence - v.behind AS sequence, v.id, v.event,"
        "  v.created_at, v.timestamp, c.organization_id, c.repo, c.pr_url"
        f" FROM changed c JOIN {rows_source(_EMITTED, 'e_')} ON v.job_id = c.id),"
        f" {events.STORE_EMITTED}{kept}"
        " SELECT id, organization_id, EXISTS (SELECT 1 FROM delivered) AS has_deliveries"
        " FROM changed"
    )
    return statement, (*columns, "emitted", "id", "held_fence")


def _assignments(columns: Iterable[str], prefix: str) -> str:
    return "".join(f"{name} = {prefix}{name}, " for name in columns)


def _names(change: Change) -> list[str]:
    emitted = [_EVENT_OF[change.to]]
    if change.review_requested:
        emitted.append(events.PR_REVIEW_REQUESTED)
    return emitted


def _emitted(change: Change) -> Iterator[dict[str, Any]]:
    names = _names(change)
    for behind, event in zip(reversed(range(len(names))), names, strict=True):
        yield {
            "id": events.new_emitted_id(),
            "job_id": change.job_id,
            "event": event,
            "behind": behind,
            "created_at": change.at_ms,
            "timestamp": iso_utc(change.at_ms),
        }


def _events(change: Change, row: Row) -> Iterator[events.JobEvent]:
    emitted = _names(change)
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
