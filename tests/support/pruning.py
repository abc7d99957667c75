"""Counts what is pruned of jobs."""

from agentjobs.jobs.queue.retention import prune
from agentjobs.store.database import Database

_TABLES = ("job_logs", "job_artifacts", "jobs", "idempotency_keys")


async def prune_and_count(
    db: Database, now: int, *, log_days: int, job_days: int
) -> dict[str, int]:
    """The number of rows that were deleted, by table."""
    before = {table: await _count(db, table) for table in _TABLES}
    await prune(db, now, log_days=log_days, job_days=job_days)
    return {table: rows - await _count(db, table) for table, rows in before.items()}


async def _count(db: Database, table: str) -> int:
    row = await db.fetch_one(f"SELECT COUNT(*) AS n FROM {table}")
    assert row is not None
    return int(row["n"])
