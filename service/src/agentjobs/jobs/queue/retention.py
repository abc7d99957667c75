"""Deletes old logs, steps, artifacts and idempotency keys, and finished jobs with their events.

Identifiers begin with their time, so age is a range of the primary key and needs no index.
"""

from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_large_transaction, in_transaction
from agentjobs.webhooks.retention import delete_job_deliveries
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at

_BATCH = 200
# The tables of what a job leaves: the second column of the key, and how many rows are deleted at
# once. A chunk of a log is up to 64 KiB, an artifact up to 10 MiB, and other writers wait.
_LEFT_BY_JOBS = {
    "job_steps": ("sequence", 200),
    "job_logs": ("sequence", 20),
    "job_artifacts": ("name", 5),
}
_IDEMPOTENCY_DAYS = 2
# A pending delivery still needs the body of its event.
_NOTHING_PENDING = (
    "NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.job_id = jobs.id AND d.status = 'pending')"
)


async def prune(db: Database, now: int, *, log_days: int, job_days: int) -> None:
    """A retention of 0 days keeps everything."""
    for table in _LEFT_BY_JOBS:
        # The log of a deleted job goes with it, however long logs are kept.
        for days in (log_days, job_days):
            while days > 0 and await _remove_rows(db, table, now - days * DAY_MS):
                pass
    while job_days > 0 and await _prune_jobs(db, now - job_days * DAY_MS):
        pass
    while await _prune_idempotency(db, now - _IDEMPOTENCY_DAYS * DAY_MS):
        pass


@in_large_transaction
async def _remove_rows(tx: Transaction, table: str, before: int) -> int:
    """In the order of the primary key, only rows of jobs that finished before that time."""
    column, batch = _LEFT_BY_JOBS[table]
    return await tx.execute(
        f"DELETE FROM {table} WHERE (job_id, {column}) IN (SELECT l.job_id, l.{column}"
        f" FROM {table} l WHERE l.job_id < :before AND (SELECT j.completed_at FROM jobs j"
        f"  WHERE j.id = l.job_id) < :before_ms ORDER BY l.job_id, l.{column} LIMIT :batch)",
        before=first_id_at("job", before),
        before_ms=before,
        batch=batch,
    )


async def _prune_jobs(db: Database, before: int) -> bool:
    """One batch; False once there are no others."""
    if not (ids := await _finished_before(db, before)):
        return False
    await delete_job_deliveries(db, ids)
    return await _remove_jobs(db, ids)


async def _finished_before(db: Database, before: int) -> list[str]:
    rows = await db.fetch_all(
        "SELECT id FROM jobs WHERE completed_at IS NOT NULL AND completed_at < :before"
        f" AND {_NOTHING_PENDING} ORDER BY completed_at LIMIT :batch",
        before=before,
        batch=_BATCH,
    )
    return [row["id"] for row in rows]


@in_transaction
async def _remove_jobs(tx: Transaction, ids: list[str]) -> bool:
    rows = await tx.fetch_all(
        # Since then a draft may have been marked ready, or a delivery sent again.
        f"SELECT id FROM jobs WHERE id IN (SELECT value FROM each(:ids)) AND {_NOTHING_PENDING}",
        ids=ids,
    )
    deletable = [row["id"] for row in rows]
    for table, column in (
        ("events", "job_id"),
        ("job_spending", "job_id"),
        ("job_artifacts", "job_id"),
        ("job_diffs", "job_id"),
        ("job_labels", "job_id"),
        ("job_reports", "job_id"),
        ("kept_work", "job_id"),
        ("lost_claims", "job_id"),
        ("jobs", "id"),
    ):
        await tx.execute(
            f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM each(:ids))", ids=deletable
        )
    return bool(deletable)


@in_transaction
async def _prune_idempotency(tx: Transaction, before: int) -> int:
    return await tx.execute(
        "DELETE FROM idempotency_keys WHERE (organization_id, key) IN"
        " (SELECT organization_id, key FROM idempotency_keys WHERE created_at < :before"
        "  LIMIT :batch)",
        before=before,
        batch=_BATCH,
    )
