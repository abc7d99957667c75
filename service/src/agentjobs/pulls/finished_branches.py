"""Branches of finished work on platforms, until a sync has deleted them.

`local` repositories need no rows: `branches` reads their refs.
"""

import msgspec

from agentjobs.local_git.branches import JOB_BRANCHES
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.leases import backoff_ms
from agentjobs_runtime.clock import DAY_MS, SECOND_MS, now_ms

# A pull request that was closed by mistake can be reopened for this long.
CLOSED_DELAY_MS = DAY_MS
MAX_FAILURES = 8
_FIRST_RETRY_MS = 300 * SECOND_MS
_MAX_AT_ONCE = 20


class FinishedBranch(msgspec.Struct, frozen=True):
    """`head_commit` is what a job pushed: a branch that has moved since is not deleted."""

    branch: str
    head_commit: str
    failures: int = 0


async def record_finished_branch(
    tx: Transaction, repo_id: str, branch: str, head_commit: str, delay_ms: int = 0
) -> None:
    """Ignores branches that are not of jobs."""
    if not branch.startswith(JOB_BRANCHES):
        return
    await tx.execute(
        "INSERT INTO finished_branches (repo_id, branch, head_commit, due_at, failures)"
        " VALUES (:repo_id, :branch, :head_commit, :due_at, 0)"
        " ON CONFLICT (repo_id, branch) DO UPDATE SET head_commit = excluded.head_commit,"
        " due_at = excluded.due_at, failures = 0",
        repo_id=repo_id,
        branch=branch,
        head_commit=head_commit,
        due_at=await tx.clock_ms() + delay_ms,
    )


async def due_branches(db: Database, repo_id: str) -> list[FinishedBranch]:
    rows = await db.fetch_all(
        "SELECT branch, head_commit, failures FROM finished_branches WHERE repo_id = :repo_id"
        f" AND due_at <= {DATABASE_NOW} ORDER BY due_at, branch LIMIT {_MAX_AT_ONCE}",
        repo_id=repo_id,
        now=now_ms(),
    )
    return [to_struct(row, FinishedBranch) for row in rows]


async def forget_branch(tx: Transaction, repo_id: str, branch: str) -> None:
    await tx.execute(
        "DELETE FROM finished_branches WHERE repo_id = :repo_id AND branch = :branch",
        repo_id=repo_id,
        branch=branch,
    )


async def retry_branch(tx: Transaction, repo_id: str, finished: FinishedBranch) -> None:
    """Retries later, a limited number of times."""
    if finished.failures + 1 >= MAX_FAILURES:
        await forget_branch(tx, repo_id, finished.branch)
        return
    await tx.execute(
        "UPDATE finished_branches SET failures = failures + 1, due_at = :due_at"
        " WHERE repo_id = :repo_id AND branch = :branch",
        repo_id=repo_id,
        branch=finished.branch,
        due_at=await tx.clock_ms() + backoff_ms(finished.failures, _FIRST_RETRY_MS, DAY_MS),
    )
