"""When a repository is indexed, and what is stored: due times are queue, lease and backoff."""

import asyncio
from pathlib import Path

import msgspec

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.git.refs import resolve
from agentjobs.repos.index.count import IndexResult, count_repository
from agentjobs.store.database import Database, Transaction

_LEASE_MS = 15 * SECOND_MS
_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MOST_BACKOFF_MS = 3_600 * SECOND_MS
_PROGRESS_SECONDS = 0.5


class DueRepo(msgspec.Struct, frozen=True):
    id: str
    default_branch: str
    head_commit: str
    failures: int


class IndexFailure(Exception):
    """Why a repository could not be indexed, in words for its owner."""


async def claim_due(db: Database) -> DueRepo | None:
    """The repository that has waited longest; it is due again if we are never heard of."""
    return await db.transact(_claim_due)


async def index_repository(db: Database, repo: DueRepo, git_dir: Path) -> IndexResult:
    commit = await resolve(git_dir, f"refs/heads/{repo.default_branch}")
    if commit is None:
        raise IndexFailure(f"The repository has no branch {repo.default_branch!r} any more.")
    progress = _Progress()
    counting = asyncio.create_task(count_repository(git_dir, commit, progress.note))
    try:
        while not counting.done():
            await asyncio.wait({counting}, timeout=_PROGRESS_SECONDS)
            if not counting.done():
                await db.transact(_store_progress, repo.id, progress.done, progress.total)
    finally:
        counting.cancel()
    result = await counting
    await db.transact(_store_result, repo, result)
    return result


async def store_failure(db: Database, repo: DueRepo, reason: str) -> None:
    backoff = min(_FIRST_BACKOFF_MS * 2**repo.failures, _MOST_BACKOFF_MS)
    await db.transact(_store_failure, repo.id, reason, now_ms() + backoff)


class _Progress:
    """How far a count is; writing it down now and then also keeps the claim."""

    done = 0
    total = 0

    def note(self, done: int, total: int) -> None:
        self.done, self.total = done, total


async def _claim_due(tx: Transaction) -> DueRepo | None:
    now = now_ms()
    row = await tx.fetch_one(
        "SELECT id, default_branch, head_commit, index_failures FROM repos"
        " WHERE index_due_at IS NOT NULL AND index_due_at <= :now AND platform = 'local'"
        " AND disconnected_at IS NULL"
        " ORDER BY index_due_at LIMIT 1 /*postgresql FOR UPDATE SKIP LOCKED */",
        now=now,
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE repos SET index_due_at = :until, index_done = 0, index_total = NULL WHERE id = :id",
        id=row["id"],
        until=now + _LEASE_MS,
    )
    return DueRepo(row["id"], row["default_branch"], row["head_commit"], row["index_failures"])


async def _store_progress(tx: Transaction, repo_id: str, done: int, total: int) -> None:
    await tx.execute(
        "UPDATE repos SET index_done = :done, index_total = :total, index_due_at = :until"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        done=done,
        total=total,
        until=now_ms() + _LEASE_MS,
    )


async def _store_result(tx: Transaction, repo: DueRepo, result: IndexResult) -> None:
    # A head that moved while we counted makes the repository due again at once. One that did not
    # is set to what was counted: a crash between a push and its note left it behind.
    await tx.execute(
        "UPDATE repos SET index_status = 'ready', line_count = :line_count,"
        " indexed_commit = :indexed, index_error = NULL, index_failures = 0,"
        " index_done = :files, index_total = :files,"
        " head_commit = CASE WHEN head_commit = :seen THEN :indexed ELSE head_commit END,"
        " index_due_at = CASE WHEN head_commit = :seen THEN NULL ELSE CAST(:now AS BIGINT) END"
        " WHERE id = :id AND disconnected_at IS NULL",
        id=repo.id,
        line_count=result.line_count,
        indexed=result.commit,
        files=result.file_count,
        seen=repo.head_commit,
        now=now_ms(),
    )
    await tx.invalidate("repos")


async def _store_failure(tx: Transaction, repo_id: str, reason: str, due_at: int) -> None:
    await tx.execute(
        "UPDATE repos SET index_error = :reason, index_failures = index_failures + 1,"
        " index_due_at = :due_at WHERE id = :id AND disconnected_at IS NULL",
        id=repo_id,
        reason=reason,
        due_at=due_at,
    )
