"""Deletes old logs, steps, artifacts and idempotency keys, and finished jobs with their events.

Identifiers begin with their time, so age is a range of the primary key and needs no index.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.retention import delete_job_deliveries
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at

_BATCH = 200
# A chunk is up to 64 KiB, and on SQLite the statement blocks the event loop.
_LOG_BATCH = 20
# An artifact is up to 10 MiB, and other writers wait.
_ARTIFACT_BATCH = 5
_IDEMPOTENCY_DAYS = 2
# A pending delivery still needs the body of its event.
_NOTHING_PENDING = (
    "NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.job_id = jobs.id AND d.status = 'pending')"
)


class Pruned(msgspec.Struct, frozen=True):
    log_chunks: int
    artifacts: int
    jobs: int
    idempotency_keys: int


async def prune(db: Database, now: int, *, log_days: int, job_days: int) -> Pruned:
    """A retention of 0 days keeps everything."""
    for days in (log_days, job_days):
        await _in_batches(db, _prune_steps, now, days)
    return Pruned(
        log_chunks=await _in_batches(db, _prune_logs, now, log_days)
        # The log of a deleted job goes with it, however long logs are kept.
        + await _in_batches(db, _prune_logs, now, job_days),
        artifacts=await _prune_artifacts(db, now, log_days)
        + await _prune_artifacts(db, now, job_days),
        jobs=await _prune_jobs(db, now, job_days),
        idempotency_keys=await _in_batches(db, _prune_idempotency, now, _IDEMPOTENCY_DAYS),
    )


async def _in_batches(
    db: Database,
    batch: Callable[[Transaction, int], Coroutine[Any, Any, int]],
    at: int,
    days: int,
) -> int:
    if days <= 0:
        return 0
    total = 0
    while removed := await db.transact(batch, at - days * DAY_MS):
        total += removed
    return total


async def _prune_logs(tx: Transaction, before: int) -> int:
    # In the order of the primary key, only logs of jobs that finished before that time.
    return await tx.execute(
        "DELETE FROM job_logs WHERE (job_id, sequence) IN (SELECT l.job_id, l.sequence"
        " FROM job_logs l WHERE l.job_id < :before AND (SELECT j.completed_at FROM jobs j"
        "  WHERE j.id = l.job_id) < :before_ms ORDER BY l.job_id, l.sequence LIMIT :batch)",
        before=first_id_at("job", before),
        before_ms=before,
        batch=_LOG_BATCH,
    )


async def _prune_steps(tx: Transaction, before: int) -> int:
    return await tx.execute(
        "DELETE FROM job_steps WHERE (job_id, sequence) IN (SELECT s.job_id, s.sequence"
        " FROM job_steps s WHERE s.job_id < :before AND (SELECT j.completed_at FROM jobs j"
        "  WHERE j.id = s.job_id) < :before_ms ORDER BY s.job_id, s.sequence LIMIT :batch)",
        before=first_id_at("job", before),
        before_ms=before,
        batch=_BATCH,
    )


async def _prune_artifacts(db: Database, at: int, days: int) -> int:
    total = 0
    while days > 0 and (removed := await db.transact_large(_remove_artifacts, at - days * DAY_MS)):
        total += removed
    return total


async def _remove_artifacts(tx: Transaction, before: int) -> int:
    return await tx.execute(
        "DELETE FROM job_artifacts WHERE (job_id, name) IN (SELECT a.job_id, a.name"
        " FROM job_artifacts a WHERE a.job_id < :before AND (SELECT j.completed_at FROM jobs j"
        "  WHERE j.id = a.job_id) < :before_ms ORDER BY a.job_id, a.name LIMIT :batch)",
        before=first_id_at("job", before),
        before_ms=before,
        batch=_ARTIFACT_BATCH,
    )


async def _prune_jobs(db: Database, at: int, days: int) -> int:
    total = 0
    while days > 0 and (ids := await _finished_before(db, at - days * DAY_MS)):
        await delete_job_deliveries(db, ids)
        removed = await db.transact(_remove_jobs, ids)
        if not removed:
            break
        total += removed
    return total


async def _finished_before(db: Database, before: int) -> list[str]:
    rows = await db.fetch_all(
        "SELECT id FROM jobs WHERE completed_at IS NOT NULL AND completed_at < :before"
        f" AND {_NOTHING_PENDING} ORDER BY completed_at LIMIT :batch",
        before=before,
        batch=_BATCH,
    )
    return [row["id"] for row in rows]


async def _remove_jobs(tx: Transaction, ids: list[str]) -> int:
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
    return len(deletable)


async def _prune_idempotency(tx: Transaction, before: int) -> int:
    return await tx.execute(
        "DELETE FROM idempotency_keys WHERE (organization_id, key) IN"
        " (SELECT organization_id, key FROM idempotency_keys WHERE created_at < :before"
        "  LIMIT :batch)",
        before=before,
        batch=_BATCH,
    )
