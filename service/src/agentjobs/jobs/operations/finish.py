"""Stores the outcome of a run: the row and its events, under the fence of the claim."""

from collections.abc import Sequence

import msgspec

from agentjobs.jobs.operations.interruptions import keep_after_lost_claim, publish_later, requeue
from agentjobs.jobs.queue.kept_work import keep_work
from agentjobs.jobs.queue.transition import (
    Change,
    apply_all,
    release_claim,
    to_cancelled,
    to_failed,
    to_reported,
)
from agentjobs.jobs.results.reports import store_report
from agentjobs.jobs.states import COMPLETED, RUNNING
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.grouping import transact_together
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    Kept,
    Outcome,
    Reported,
)


class _Finish(msgspec.Struct, frozen=True):
    job: ClaimedJob
    outcome: Completed | Reported | Kept | Failed | Cancelled | Interrupted
    phases: str | None

    @property
    def depends_on_row(self) -> bool:
        """A completed job completes whatever was requested meanwhile."""
        return not isinstance(self.outcome, Completed)


async def finish_job(
    db: Database, job: ClaimedJob, outcome: Outcome, phases: str | None = None
) -> bool:
    """Return False when the claim is lost and nothing was written.

    `phases` are those of its runs, as stored.
    """
    if isinstance(outcome, Abandoned):
        return False
    finish = _Finish(job, outcome, phases)
    if isinstance(outcome, Kept) or job.kept_at is not None:
        # The work that is stored or deleted may have many megabytes.
        [is_stored] = await db.transact_large(_finish_all, [finish])
        return is_stored
    return await transact_together(db, _finish_all, finish)


async def _finish_all(tx: Transaction, ended: Sequence[_Finish]) -> list[bool]:
    rows = await _held_rows(tx, [end.job for end in ended if end.depends_on_row])
    stored = dict.fromkeys((end.job.claim for end in ended), False)
    changes = []
    now = await tx.clock_ms()
    for end in ended:
        row = rows.get(end.job.claim)
        if row is None and end.depends_on_row:
            stored[end.job.claim] = await keep_after_lost_claim(tx, end.job, end.outcome)
            continue
        if isinstance(end.outcome, Kept) and row is not None and not row["cancel_requested_at"]:
            if row["status"] == RUNNING:
                await keep_work(tx, end.job.id, end.outcome.work, end.phases)
                stored[end.job.claim] = True
        elif (change := await _change(tx, end.job, end.outcome, row, now)) is not None:
            changes.append(_with_phases(change, end.phases))
        elif end.job.kept_at is None:
            stored[end.job.claim] = await release_claim(tx, *end.job.claim)
        else:
            stored[end.job.claim] = True
    applied = await apply_all(tx, changes, is_last=True)
    stored |= {
        (change.job_id, change.fence or 0): is_applied
        for change, is_applied in zip(changes, applied, strict=True)
    }
    return [stored[end.job.claim] for end in ended]


async def _held_rows(tx: Transaction, jobs: Sequence[ClaimedJob]) -> dict[Claim, Row]:
    """The rows of jobs whose claims are still held, locked."""
    if not jobs:
        return {}
    rows = await tx.fetch_all(
        "SELECT j.id, q.fence, j.status, j.attempt, j.cancel_requested_at"
        " FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.job_id IN (SELECT value FROM each(:ids)) AND q.lease_owner IS NOT NULL"
        " ORDER BY q.job_id /*postgresql FOR UPDATE OF q, j */",
        ids=[job.id for job in jobs],
    )
    return {(row["id"], row["fence"]): row for row in rows}


async def _change(
    tx: Transaction,
    job: ClaimedJob,
    outcome: Completed | Reported | Kept | Failed | Cancelled | Interrupted,
    row: Row | None,
    now: int,
) -> Change | None:
    """None if the job stays queued, because its agent never started, or its work stays kept."""
    if isinstance(outcome, Completed):
        is_draft = outcome.draft and await _is_still_draft(tx, job, outcome.pr_number)
        return _to_completed(job, now, outcome, is_draft=is_draft)
    assert row is not None
    if isinstance(outcome, Cancelled) or row["cancel_requested_at"] is not None:
        # Whatever else stopped the run, the client cancelled it.
        return to_cancelled(job.id, now, job.fence)
    if isinstance(outcome, Reported):
        await store_report(tx, job.id, outcome.report, now)
        return to_reported(job.id, now, job.fence)
    if isinstance(outcome, Failed):
        return to_failed(job.id, now, outcome.code, outcome.message, job.fence)
    assert not isinstance(outcome, Kept)
    if job.kept_at is not None:
        return await publish_later(tx, job, outcome)
    return await requeue(tx, job, row, outcome)


async def _is_still_draft(tx: Transaction, job: ClaimedJob, number: int) -> bool:
    """The pull request may have been marked ready before the job finished."""
    row = await tx.fetch_one(
        "SELECT draft FROM pulls WHERE repo_id = :repo_id AND number = :number",
        repo_id=job.repo_id,
        number=number,
    )
    return row is None or bool(row["draft"])


def _with_phases(change: Change, phases: str | None) -> Change:
    if phases is None:
        return change
    return msgspec.structs.replace(change, columns={**change.columns, "phases": phases})


def _to_completed(job: ClaimedJob, now: int, outcome: Completed, *, is_draft: bool) -> Change:
    columns = {
        "completed_at": now,
        "pr_url": outcome.pr_url,
        "pr_number": outcome.pr_number,
        "head_commit": outcome.head_commit,
    }
    return Change(job.id, COMPLETED, now, job.fence, columns, review_requested=not is_draft)
