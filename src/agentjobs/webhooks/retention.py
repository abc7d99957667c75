"""Lets go of deliveries that are settled and old enough, with their attempts and pings' events.

On SQLite the event loop waits for each statement, and an attempt may hold 16 KiB of a response:
so batches are made by weight, and what they hold is looked up outside of any transaction.
"""

from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.identifiers import first_id_at
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.events import PING

_READ_AT_ONCE = 1_000
_MOST_IN_A_BATCH = 200
# About 2 ms on SQLite, where a row with its index entries costs as much as some KiB of a body.
_MOST_WEIGHT_IN_A_BATCH = 1024 * 1024
_ROW_WEIGHT = 4 * 1024

_WITH_SIZES = (
    "SELECT d.id, COUNT(a.id) AS attempts,"
    " COALESCE(SUM(LENGTH(a.response_body)), 0) AS response_bytes FROM ({chosen}) d"
    " LEFT JOIN delivery_attempts a ON a.delivery_id = d.id GROUP BY d.id ORDER BY d.id"
)
_OLD = _WITH_SIZES.format(
    chosen="SELECT id FROM deliveries WHERE id < :before AND id > :after AND status <> 'pending'"
    " ORDER BY id LIMIT :most"
)
_OF_JOBS = _WITH_SIZES.format(
    chosen="SELECT id FROM deliveries WHERE job_id IN (SELECT value FROM each(:jobs))"
    " AND status <> 'pending' ORDER BY id LIMIT :most"
)


class Weighed(msgspec.Struct, frozen=True):
    id: str
    weight: int


async def prune_deliveries(db: Database, days: int, now: int | None = None) -> int:
    """Those of events from before so many days, never pending ones; 0 days keeps them for ever."""
    if days <= 0:
        return 0
    before = first_id_at("dlv", max((now_ms() if now is None else now) - days * DAY_MS, 0))
    total = 0
    after = ""
    while rows := await db.fetch_all(_OLD, before=before, after=after, most=_READ_AT_ONCE):
        total += await _remove(db, rows)
        after = rows[-1]["id"]
    return total


async def forget_deliveries_of(db: Database, job_ids: list[str]) -> int:
    """All that is settled, whatever its age: the bytes that were sent go with the job."""
    total = 0
    while rows := await db.fetch_all(_OF_JOBS, jobs=job_ids, most=_READ_AT_ONCE):
        removed = await _remove(db, rows)
        if not removed:
            break
        total += removed
    return total


def in_batches(deliveries: Iterable[Weighed]) -> Iterator[list[str]]:
    """In their order, so that no batch is heavy; one that is heavy alone is alone in its batch."""
    batch: list[str] = []
    weight = 0
    for delivery in deliveries:
        is_full = weight + delivery.weight > _MOST_WEIGHT_IN_A_BATCH
        if batch and (is_full or len(batch) == _MOST_IN_A_BATCH):
            yield batch
            batch, weight = [], 0
        batch.append(delivery.id)
        weight += delivery.weight
    if batch:
        yield batch


async def _remove(db: Database, rows: list[Row]) -> int:
    removed = 0
    for ids in in_batches(_weighed(row) for row in rows):
        removed += await db.transact(_remove_batch, ids)
    return removed


def _weighed(row: Row) -> Weighed:
    rows = 1 + row["attempts"]
    return Weighed(row["id"], int(row["response_bytes"]) + rows * _ROW_WEIGHT)


async def _remove_batch(tx: Transaction, ids: list[str]) -> int:
    rows = await tx.fetch_all(
        "SELECT id, event, job_id FROM deliveries WHERE id IN (SELECT value FROM each(:ids))"
        # Asked for again in the meantime, or being removed by another process.
        " AND status <> 'pending' ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */",
        ids=ids,
    )
    settled = [row["id"] for row in rows]
    # The job of a ping is made up, so nobody else lets go of its event.
    pings = [row["job_id"] for row in rows if row["event"] == PING]
    for table, column, values in (
        ("delivery_attempts", "delivery_id", settled),
        ("events", "job_id", pings),
        ("deliveries", "id", settled),
    ):
        if values:
            await tx.execute(
                f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM each(:values))",
                values=values,
            )
    return len(settled)
