"""Lists the events of an organization in an order that never changes and has no gaps.

A transaction may commit after others that began later. An event therefore gets its position when
it is first listed and not when it is inserted: what commits late comes later.
"""

import time
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Database, Row, Transaction, column_values
from agentjobs.webhooks.events import activity_topic

_POLL_SECONDS = 2.0
# On SQLite the event loop waits for the transaction.
_MAX_BATCH = 250
# Positions follow the clock: those given after a backup was restored are not given twice.
_POSITIONS_PER_MS = 1_000

_IS_UNLISTED = "organization_id = :organization_id AND position IS NULL"
# Skips the events of a job that is being deleted, because waiting for it could deadlock.
_LOCKED = "/*postgresql FOR NO KEY UPDATE SKIP LOCKED */"
_HAS_UNLISTED = f"SELECT 1 AS found FROM events WHERE {_IS_UNLISTED} LIMIT 1"
_UNLISTED = (
    f"SELECT job_id, sequence FROM events WHERE {_IS_UNLISTED}"
    f" ORDER BY created_at LIMIT :limit {_LOCKED}"
)
_UNLISTED_OF_JOBS = (
    # Without the hint SQLite reads all unlisted events.
    "SELECT job_id, sequence FROM events /*sqlite INDEXED BY sqlite_autoindex_events_1 */"
    " WHERE job_id IN (SELECT value FROM each(:jobs))"
    f" AND {_IS_UNLISTED} {_LOCKED}"
)
# Only one transaction at a time numbers the events of an organization. Without events it leaves no
# row behind: the organization may be being deleted.
_LOCK = (
    "INSERT INTO event_positions (organization_id, last_position)"
    f" SELECT CAST(:organization_id AS TEXT), 0 WHERE EXISTS ({_HAS_UNLISTED})"
    " ON CONFLICT (organization_id) DO UPDATE SET last_position = event_positions.last_position"
    " RETURNING last_position"
)
_SET_POSITION = BatchStatement(
    {"job_id": "text", "sequence": "bigint", "position": "bigint"},
    one="UPDATE events SET position = :position WHERE job_id = :job_id AND sequence = :sequence",
    many="UPDATE events SET position = v.position FROM {rows}"
    " WHERE events.job_id = v.job_id AND events.sequence = v.sequence",
)

# The identifier of a job and the number of its event.
EventKey = tuple[str, int]


class ListedEvent(msgspec.Struct, frozen=True):
    position: int
    id: str
    event: str
    job_id: str
    sequence: int
    created_at: int
    body: bytes


_PAGE = (
    f"SELECT {', '.join(ListedEvent.__struct_fields__)} FROM events"
    " WHERE organization_id = :organization_id AND position > :after"
    " ORDER BY position LIMIT :limit"
)


async def list_events(
    db: Database, organization_id: str, *, after: int, limit: int
) -> list[ListedEvent]:
    """Oldest first; `after` is the position of the last event already seen, or 0."""
    # First, so that events that another request lists meanwhile are read too.
    await _number_events(db, organization_id, limit)
    rows = await db.fetch_all(_PAGE, organization_id=organization_id, after=after, limit=limit)
    return [ListedEvent(*column_values(row)) for row in rows]


async def wait_for_events(
    db: Database, organization_id: str, *, after: int, limit: int, seconds: float
) -> list[ListedEvent]:
    """The events once there are any, or none after `seconds`."""
    deadline = time.monotonic() + seconds
    with db.changes.listen(activity_topic(organization_id)) as signal:
        while True:
            events = await list_events(db, organization_id, after=after, limit=limit)
            remaining = deadline - time.monotonic()
            if events or remaining <= 0:
                return events
            await signal.wait(min(remaining, _POLL_SECONDS))


def in_job_order(keys: Sequence[EventKey], unlisted: Iterable[EventKey]) -> list[EventKey]:
    """The same number of events of the same jobs, but each job's earliest first.

    A job's later event may have an earlier time: its transaction may have read the clock before it
    waited for the transaction of the earlier one.
    """
    sequences: dict[str, list[int]] = {}
    for job_id, sequence in unlisted:
        sequences.setdefault(job_id, []).append(sequence)
    earliest = {job_id: iter(sorted(sequence)) for job_id, sequence in sequences.items()}
    return [(job_id, next(earliest[job_id])) for job_id, _ in keys]


async def _number_events(db: Database, organization_id: str, limit: int) -> None:
    """Gives positions to at most `limit` events."""
    if await db.fetch_one(_HAS_UNLISTED, organization_id=organization_id) is None:
        return
    while limit > 0:
        batch = min(limit, _MAX_BATCH)
        if await db.transact(_number_batch, organization_id, batch) < batch:
            return
        limit -= batch


async def _number_batch(tx: Transaction, organization_id: str, limit: int) -> int:
    row = await tx.fetch_one(_LOCK, organization_id=organization_id)
    if row is None:
        return 0
    keys = await _next_keys(tx, organization_id, limit)
    if not keys:
        return 0
    first = max(row["last_position"], await tx.clock_ms() * _POSITIONS_PER_MS) + 1
    numbered = [
        {"job_id": job_id, "sequence": sequence, "position": position}
        for position, (job_id, sequence) in enumerate(keys, first)
    ]
    await _SET_POSITION.run(tx, numbered)
    await tx.execute(
        "UPDATE event_positions SET last_position = :last WHERE organization_id = :organization_id",
        organization_id=organization_id,
        last=first + len(keys) - 1,
    )
    return len(keys)


async def _next_keys(tx: Transaction, organization_id: str, limit: int) -> list[EventKey]:
    rows = await tx.fetch_all(_UNLISTED, organization_id=organization_id, limit=limit)
    keys = unlisted = _keys(rows)
    if len(keys) == limit:
        # Earlier events of these jobs may be among those left out.
        rows = await tx.fetch_all(
            _UNLISTED_OF_JOBS,
            organization_id=organization_id,
            jobs={job_id for job_id, _ in keys},
        )
        unlisted = _keys(rows)
    return in_job_order(keys, unlisted)


def _keys(rows: Iterable[Row]) -> list[EventKey]:
    return [(row["job_id"], row["sequence"]) for row in rows]
