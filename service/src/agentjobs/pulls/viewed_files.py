"""Which files of a pull request a user has marked as viewed, and in which version.

A mark is personal: it changes nothing for others, so it is not in the audit log.
"""

import re

from agentjobs.pulls.pulls import Pull
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute_many, in_transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.problems import Problem

RETENTION_MS = 180 * DAY_MS
_BATCH = 500
_MARK = (
    "WHERE repo_id = :repo_id AND number = :number AND user_id = :user_id AND file_key = :file_key"
)
_BLOB_ID = re.compile("[0-9a-f]{1,64}")


async def list_viewed(db: Database, pull: Pull, user_id: str) -> dict[str, str]:
    """The viewed version of each file, by its key."""
    rows = await db.fetch_all(
        "SELECT file_key, blob_id FROM pull_views"
        " WHERE repo_id = :repo_id AND number = :number AND user_id = :user_id",
        **pull.key,
        user_id=user_id,
    )
    return {row["file_key"]: row["blob_id"] for row in rows}


@in_transaction
async def mark_viewed(
    tx: Transaction, pull: Pull, user_id: str, file_key: str, blob_id: str | None
) -> None:
    """`blob_id` is the version that the user has seen; None removes the mark."""
    mark = {**pull.key, "user_id": user_id, "file_key": file_key}
    if blob_id is None:
        await tx.execute(f"DELETE FROM pull_views {_MARK}", **mark)
        return
    if not _BLOB_ID.fullmatch(blob_id):
        raise Problem("not_found", "There is no such version of the file. Reload the page.")
    await tx.execute(
        "INSERT INTO pull_views (repo_id, number, user_id, file_key, blob_id, viewed_at)"
        " VALUES (:repo_id, :number, :user_id, :file_key, :blob_id, :now)"
        " ON CONFLICT (repo_id, number, user_id, file_key) DO UPDATE"
        " SET blob_id = excluded.blob_id, viewed_at = excluded.viewed_at",
        **mark,
        blob_id=blob_id,
        now=await tx.clock_ms(),
    )


async def prune_views(db: Database, now: int) -> int:
    """Delete one batch of old marks; returns the number of deleted rows."""
    oldest = now - RETENTION_MS
    rows = await db.fetch_all(
        "SELECT repo_id, number, user_id, file_key FROM pull_views"
        f" WHERE viewed_at <= :oldest LIMIT {_BATCH}",
        oldest=oldest,
    )
    if rows:
        statement = f"DELETE FROM pull_views {_MARK} AND viewed_at <= :oldest"
        await db.transact(execute_many, statement, [{**row, "oldest": oldest} for row in rows])
    return len(rows)
