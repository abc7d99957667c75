"""Deletes old settled deliveries with their attempts, and the events of tests."""

from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.events import is_test
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at

_PAGE_ROWS = 1_000
# On SQLite the event loop waits for each statement, and an attempt may hold 16 KiB of a response
# and as much of its headers: at most a few megabytes are deleted at once.
_BATCH_ROWS = 25

_ANY_TIME = 2**63 - 1

# `due_at` of a settled delivery is the time it ended.
_IS_EXPIRED = "status <> 'pending' AND due_at < :ended_before"
# Also returns deliveries that stay, so that no statement skips many rows at once.
_OLD = (
    f"SELECT id, ({_IS_EXPIRED}) AS is_expired FROM deliveries WHERE id < :before AND id > :after"
    " ORDER BY id LIMIT :limit"
)
_OF_JOBS = (
    "SELECT id, TRUE AS is_expired FROM deliveries"
    f" WHERE job_id IN (SELECT value FROM each(:jobs)) AND {_IS_EXPIRED} ORDER BY id LIMIT :limit"
)


async def prune_deliveries(db: Database, days: int, now: int) -> int:
    """Deletes deliveries that ended more than `days` ago, never pending ones; 0 keeps all."""
    if days <= 0:
        return 0
    cutoff = max(now - days * DAY_MS, 0)
    total = 0
    after = ""
    # A delivery ends after its event, so later events need not be read.
    while rows := await db.fetch_all(
        _OLD,
        before=first_id_at("dlv", cutoff),
        after=after,
        ended_before=cutoff,
        limit=_PAGE_ROWS,
    ):
        total += await _delete(db, rows, cutoff)
        after = rows[-1]["id"]
    return total


async def delete_job_deliveries(db: Database, job_ids: list[str]) -> None:
    """Deletes settled deliveries of any age: the bytes that were sent are deleted with the job."""
    deleted = 1
    while deleted:
        rows = await db.fetch_all(_OF_JOBS, jobs=job_ids, ended_before=_ANY_TIME, limit=_PAGE_ROWS)
        deleted = await _delete(db, rows, _ANY_TIME)


async def _delete(db: Database, rows: list[Row], ended_before: int) -> int:
    deleted = 0
    ids = [row["id"] for row in rows if row["is_expired"]]
    for at in range(0, len(ids), _BATCH_ROWS):
        batch = ids[at : at + _BATCH_ROWS]
        deleted += await db.transact(_delete_batch, batch, ended_before)
    return deleted


async def _delete_batch(tx: Transaction, ids: list[str], ended_before: int) -> int:
    rows = await tx.fetch_all(
        "SELECT id, event, sequence, job_id FROM deliveries"
        " WHERE id IN (SELECT value FROM each(:ids))"
        # Another process may have redelivered or deleted it in the meantime.
        f" AND {_IS_EXPIRED} ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */",
        ids=ids,
        ended_before=ended_before,
    )
    settled = [row["id"] for row in rows]
    # A test has no job whose deletion would delete its event.
    tests = [row["job_id"] for row in rows if is_test(row["event"], row["sequence"])]
    for table, column, values in (
        ("delivery_attempts", "delivery_id", settled),
        ("events", "job_id", tests),
        ("deliveries", "id", settled),
    ):
        if values:
            await tx.execute(
                f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM each(:values))",
                values=values,
            )
    return len(settled)
