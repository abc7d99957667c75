"""What a job changed, as a unified diff: written by its worker, because the branches of platforms
are not on the machines of the API.

It holds what the job proposes for everyone to see, so unlike the log it is not redacted: a diff
that differs from the pull request would hide a secret only from those who look for it here.
"""

import asyncio
import zlib
from pathlib import Path

import msgspec

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.queue.claim import lock_claim
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.local_git.diffs import read_unified
from agentjobs.local_git.unified_diff import parse_unified
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob

MAX_DIFF_BYTES = 1024 * 1024

_SELECT = (
    "SELECT j.base_commit, j.head_commit, d.content, d.is_truncated"
    " FROM jobs j LEFT JOIN job_diffs d ON d.job_id = j.id"
    " WHERE j.id = :job_id AND j.organization_id = :organization_id"
)


class JobDiff(msgspec.Struct, frozen=True):
    base_commit: str | None
    head_commit: str | None
    content: bytes
    is_truncated: bool


async def store_diff(db: Database, job: ClaimedJob, git_dir: Path, base: str, commit: str) -> None:
    """Replaces that of an earlier attempt. Raises GitError."""
    diff, is_complete = await read_unified(git_dir, base, commit, max_bytes=MAX_DIFF_BYTES)
    row = await asyncio.to_thread(_row, diff, is_truncated=not is_complete)
    await db.transact(_store, job, row)


def _row(diff: bytes, *, is_truncated: bool) -> dict[str, object]:
    """The counts are those of the part that is stored."""
    files = parse_unified(diff)
    return {
        "content": zlib.compress(diff),
        "is_truncated": is_truncated,
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "files": len(files),
    }


async def _store(tx: Transaction, job: ClaimedJob, row: dict[str, object]) -> None:
    if not await lock_claim(tx, job):
        return
    await tx.execute(
        "INSERT INTO job_diffs"
        " (job_id, content, is_truncated, additions, deletions, files, created_at)"
        " VALUES (:job_id, :content, :is_truncated, :additions, :deletions, :files, :now)"
        " ON CONFLICT (job_id) DO UPDATE"
        " SET content = excluded.content, is_truncated = excluded.is_truncated,"
        " additions = excluded.additions, deletions = excluded.deletions,"
        " files = excluded.files, created_at = excluded.created_at",
        job_id=job.id,
        now=await tx.clock_ms(),
        **row,
    )


async def load_diff(context: JobsContext, organization_id: str, job_id: str) -> JobDiff:
    # As a scan, because it is too large for a point read on the event loop.
    rows = await context.db.fetch_all(_SELECT, job_id=job_id, organization_id=organization_id)
    if not rows:
        raise job_not_found(job_id)
    row = rows[0]
    base, head = row["base_commit"], row["head_commit"]
    if row["content"] is None:
        raise Problem(
            "diff_not_available",
            "This job has no diff: its agent has not finished, or proposed no change. View the"
            " changes of a job that an earlier version ran in its pull request.",
        )
    content = await asyncio.to_thread(zlib.decompress, row["content"])
    return JobDiff(base, head, content, bool(row["is_truncated"]))
