"""Stores the outcome of a run: the row and its events, under the fence of the claim."""

from typing import assert_never

from agentjobs.clock import now_ms
from agentjobs.jobs.outcomes import Abandoned, Cancelled, Completed, Failed, Outcome, Released
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.transition import (
    Change,
    apply,
    release_claim,
    to_cancelled,
    to_failed,
    to_queued,
)
from agentjobs.jobs.states import COMPLETED, RUNNING
from agentjobs.store.database import Database, Row, Transaction


async def finish_job(db: Database, job: ClaimedJob, outcome: Outcome) -> bool:
    """Return False when the claim is lost and nothing was written."""
    if isinstance(outcome, Abandoned):
        return False
    return await db.transact(_finish, job, outcome)


async def _finish(
    tx: Transaction, job: ClaimedJob, outcome: Completed | Failed | Cancelled | Released
) -> bool:
    row = await tx.fetch_one(
        "SELECT status, attempt, cancel_requested_at FROM jobs WHERE id = :job_id"
        " AND fence = :fence AND lease_owner IS NOT NULL /*postgresql FOR UPDATE */",
        job_id=job.id,
        fence=job.fence,
    )
    if row is None:
        return False
    now = now_ms()
    if isinstance(outcome, Completed):
        is_draft = outcome.draft and await _is_still_draft(tx, job, outcome.pr_number)
        return await apply(tx, _to_completed(job, now, outcome, is_draft=is_draft))
    if isinstance(outcome, Cancelled) or row["cancel_requested_at"] is not None:
        # Whatever else stopped the run, the client cancelled it.
        return await apply(tx, to_cancelled(job.id, now, job.fence))
    if isinstance(outcome, Failed):
        return await apply(tx, to_failed(job.id, now, outcome.code, outcome.message, job.fence))
    if isinstance(outcome, Released):
        return await _release(tx, job, row, now)
    assert_never(outcome)


async def _is_still_draft(tx: Transaction, job: ClaimedJob, number: int) -> bool:
    """The pull request may have been marked ready before the job finished."""
    row = await tx.fetch_one(
        "SELECT draft FROM pulls WHERE repo_id = :repo_id AND number = :number",
        repo_id=job.repo_id,
        number=number,
    )
    return row is None or bool(row["draft"])


def _to_completed(job: ClaimedJob, now: int, outcome: Completed, *, is_draft: bool) -> Change:
    columns = {
        "completed_at": now,
        "pr_url": outcome.pr_url,
        "pr_number": outcome.pr_number,
        "head_commit": outcome.head_commit,
    }
    return Change(job.id, COMPLETED, now, job.fence, columns, review_requested=not is_draft)


async def _release(tx: Transaction, job: ClaimedJob, row: Row, now: int) -> bool:
    if row["status"] == RUNNING:
        return await apply(tx, to_queued(job.id, now, job.fence, attempt=row["attempt"] - 1))
    return await release_claim(tx, job.id, job.fence)
