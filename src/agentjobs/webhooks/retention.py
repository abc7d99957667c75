"""Deletes old settled deliveries with their attempts, and the events of tests.

On SQLite the event loop waits for each statement of a transaction, and an attempt may hold 16 KiB
of a response and a hundred headers. Batches are therefore limited by size, and selected outside
any transaction.
"""

from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.clock import DAY_MS
from agentjobs.identifiers import first_id_at
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.events import is_test

_PAGE_ROWS = 1_000
_MAX_BATCH_ROWS = 200
# Takes about 2 ms on SQLite, where a row with its index entries costs as much as 4 KiB of a body.
_MAX_BATCH_BYTES = 1024 * 1024
_ROW_BYTES = 4 * 1024

_ANY_TIME = 2**63 - 1

# `due_at` of a settled delivery is the time it ended.
_IS_EXPIRED = "status <> 'pending' AND due_at < :ended_before"
# A correlated subquery, because PostgreSQL may otherwise read the whole table of attempts.
_SIZED = (
    "SELECT id, is_expired, CASE WHEN is_expired THEN (SELECT"
    " COALESCE(SUM(LENGTH(a.response_body) + LENGTH(a.response_headers)"
    f" + LENGTH(a.request_headers) + {_ROW_BYTES}), 0)"
    " FROM delivery_attempts a WHERE a.delivery_id = d.id) ELSE 0 END AS attempts_bytes"
    f" FROM (SELECT id, ({_IS_EXPIRED}) AS is_expired FROM deliveries WHERE {{condition}}"
    " ORDER BY id LIMIT :limit) d ORDER BY id"
)
# Also returns deliveries that stay, so that no statement skips many rows at once.
_OLD = _SIZED.format(condition="id < :before AND id > :after")
_OF_JOBS = _SIZED.format(condition=f"job_id IN (SELECT value FROM each(:jobs)) AND {_IS_EXPIRED}")


class SizedDelivery(msgspec.Struct, frozen=True):
    id: str
    size_bytes: int


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


async def delete_deliveries_of(db: Database, job_ids: list[str]) -> int:
    """Deletes settled deliveries of any age: the bytes that were sent are deleted with the job."""
    total = 0
    while rows := await db.fetch_all(
        _OF_JOBS, jobs=job_ids, ended_before=_ANY_TIME, limit=_PAGE_ROWS
    ):
        deleted = await _delete(db, rows, _ANY_TIME)
        if not deleted:
            break
        total += deleted
    return total


def split_batches(deliveries: Iterable[SizedDelivery]) -> Iterator[list[str]]:
    """Keeps the order. A delivery above the limit gets its own batch."""
    batch: list[str] = []
    size_bytes = 0
    for delivery in deliveries:
        is_full = size_bytes + delivery.size_bytes > _MAX_BATCH_BYTES
        if batch and (is_full or len(batch) == _MAX_BATCH_ROWS):
            yield batch
            batch, size_bytes = [], 0
        batch.append(delivery.id)
        size_bytes += delivery.size_bytes
    if batch:
        yield batch


async def _delete(db: Database, rows: list[Row], ended_before: int) -> int:
    deleted = 0
    for ids in split_batches(_to_sized(row) for row in rows if row["is_expired"]):
        deleted += await db.transact(_delete_batch, ids, ended_before)
    return deleted


def _to_sized(row: Row) -> SizedDelivery:
    return SizedDelivery(row["id"], _ROW_BYTES + int(row["attempts_bytes"]))


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
