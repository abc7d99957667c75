"""Lets go of deliveries that are settled and old enough, with their attempts and pings' events.

On SQLite the event loop waits for each statement of a transaction, and an attempt may hold 16 KiB
of a response and a hundred headers: so batches are made by weight, and what they hold is looked
up outside of any transaction.
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

_ANY_TIME = 2**63 - 1

# What is settled is due no more: the time is that of its end.
_IS_OVER = "status <> 'pending' AND due_at < :ended_before"
# Asked for row by row, or PostgreSQL may read all attempts there are.
_WEIGHED = (
    "SELECT id, is_over, CASE WHEN is_over THEN (SELECT"
    " COALESCE(SUM(LENGTH(a.response_body) + LENGTH(a.response_headers)"
    f" + LENGTH(a.request_headers) + {_ROW_WEIGHT}), 0)"
    " FROM delivery_attempts a WHERE a.delivery_id = d.id) ELSE 0 END AS attempts_weight"
    f" FROM (SELECT id, ({_IS_OVER}) AS is_over FROM deliveries WHERE {{wanted}}"
    " ORDER BY id LIMIT :most) d ORDER BY id"
)
# Those that stay are passed over here, so that no statement walks past many of them at once.
_OLD = _WEIGHED.format(wanted="id < :before AND id > :after")
_OF_JOBS = _WEIGHED.format(wanted=f"job_id IN (SELECT value FROM each(:jobs)) AND {_IS_OVER}")


class Weighed(msgspec.Struct, frozen=True):
    id: str
    weight: int


async def prune_deliveries(db: Database, days: int, now: int | None = None) -> int:
    """Those that ended before so many days, never pending ones; 0 days keeps them for ever."""
    if days <= 0:
        return 0
    cutoff = max((now_ms() if now is None else now) - days * DAY_MS, 0)
    total = 0
    after = ""
    # None ends before its event, so those of later events need not be looked at.
    while rows := await db.fetch_all(
        _OLD,
        before=first_id_at("dlv", cutoff),
        after=after,
        ended_before=cutoff,
        most=_READ_AT_ONCE,
    ):
        total += await _remove(db, rows, cutoff)
        after = rows[-1]["id"]
    return total


async def forget_deliveries_of(db: Database, job_ids: list[str]) -> int:
    """All that is settled, whatever its age: the bytes that were sent go with the job."""
    total = 0
    while rows := await db.fetch_all(
        _OF_JOBS, jobs=job_ids, ended_before=_ANY_TIME, most=_READ_AT_ONCE
    ):
        removed = await _remove(db, rows, _ANY_TIME)
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


async def _remove(db: Database, rows: list[Row], ended_before: int) -> int:
    removed = 0
    for ids in in_batches(_weighed(row) for row in rows if row["is_over"]):
        removed += await db.transact(_remove_batch, ids, ended_before)
    return removed


def _weighed(row: Row) -> Weighed:
    return Weighed(row["id"], _ROW_WEIGHT + int(row["attempts_weight"]))


async def _remove_batch(tx: Transaction, ids: list[str], ended_before: int) -> int:
    rows = await tx.fetch_all(
        "SELECT id, event, job_id FROM deliveries WHERE id IN (SELECT value FROM each(:ids))"
        # Asked for again in the meantime, or being removed by another process.
        f" AND {_IS_OVER} ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */",
        ids=ids,
        ended_before=ended_before,
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
