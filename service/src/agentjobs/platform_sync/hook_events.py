"""Webhook events of platforms, as rows of `platform_hints`: each delivery is stored once, and
processing it makes what it names due for a sync.

Nothing starts here and no payload is trusted: the sync asks the platform.
"""

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from agentjobs.connections import health
from agentjobs.platforms.hooks import HookEvent
from agentjobs.pulls import platform_pulls
from agentjobs.repos.queues import SYNC_TOPIC, expedite_syncs, record_change
from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs.store.leases import backoff_ms
from agentjobs_runtime.clock import DAY_MS, SECOND_MS
from agentjobs_runtime.identifiers import new_id

MAX_BATCH = 100
MAX_ATTEMPTS = 8
MAX_STORED = 10_000

# unconnected: the repository is not connected, so the delivery is not stored.
DeliveryStatus = Literal["new", "known", "unconnected"]

_FIRST_BACKOFF_MS = 5 * SECOND_MS
_MAX_BACKOFF_MS = _FIRST_BACKOFF_MS * 2**MAX_ATTEMPTS
_MAX_REASON_LENGTH = 500
_HOOK_SEEN_INTERVAL_MS = 60 * SECOND_MS
# Between two syncs of a repository that is pushed to all the time.
_PUSH_INTERVAL_MS = 10 * SECOND_MS
_PRUNE_BATCH = 500
_log = logging.getLogger(__name__)

_NAMED_REPOS = (
    "r.connection_id = :connection_id"
    " AND (CAST(:external_id AS TEXT) IS NULL OR r.external_id = :external_id)"
)


class DueHookEvent(msgspec.Struct, frozen=True):
    id: str
    connection_id: str
    event: HookEvent
    attempts: int


@in_transaction
async def record_hook_delivery(
    tx: Transaction,
    connection_id: str,
    delivery_id: str,
    event: HookEvent | None,
    repo_id: str | None = None,
) -> DeliveryStatus:
    """Store a delivery. One without an event only shows that hooks arrive.

    With `repo_id`, it is signed with the secret of that repository, and can name no other one.
    """
    await health.record_hook(tx, connection_id)
    now = await tx.clock_ms()
    if event is None or not await _is_connected(tx, connection_id, event, repo_id, now):
        return "unconnected"
    is_new = await tx.execute(
        "INSERT INTO platform_hints (id, connection_id, delivery_id, kind, external_id, number,"
        " received_at, due_at) VALUES (:id, :connection_id, :delivery_id, :kind, :external_id,"
        " :number, :now, :now) ON CONFLICT (connection_id, delivery_id) DO NOTHING",
        id=new_id("hnt"),
        connection_id=connection_id,
        delivery_id=delivery_id,
        kind=event.kind,
        external_id=event.external_id,
        number=event.number,
        now=now,
    )
    if is_new:
        tx.announce(SYNC_TOPIC)
    return "new" if is_new else "known"


async def process_hook_events(db: Database) -> int:
    """Process a bounded batch of due events, the oldest first; returns how many were due.

    Of several processes, one processes an event.
    """
    due = await db.transact(_due_events)
    if not due:
        return 0
    try:
        await db.transact(_process, due)
    except StoreUnavailable:
        raise
    except Exception:  # noqa: BLE001 - one event must not block the others
        for event in due:
            await _process_alone(db, event)
    return len(due)


async def prune_hook_events(db: Database, now: int) -> int:
    """Delete a batch of processed events that are older than a day, or of a connection that has
    very many; returns how many were deleted."""
    rows = await db.fetch_all(
        "SELECT id FROM platform_hints WHERE received_at < :before AND due_at IS NULL"
        f" ORDER BY received_at LIMIT {_PRUNE_BATCH}",
        before=now - DAY_MS,
    )
    if not rows:
        rows = await db.fetch_all(
            "SELECT h.id FROM platform_hints h JOIN (SELECT connection_id FROM platform_hints"
            "  GROUP BY connection_id HAVING COUNT(*) > :most LIMIT 1) c"
            " ON c.connection_id = h.connection_id WHERE h.due_at IS NULL"
            f" ORDER BY h.received_at LIMIT {_PRUNE_BATCH}",
            most=MAX_STORED,
        )
    if not rows:
        return 0
    delete = "DELETE FROM platform_hints WHERE id IN (SELECT value FROM each(:ids))"
    return await db.transact(execute, delete, ids=[row["id"] for row in rows])


async def _is_connected(
    tx: Transaction, connection_id: str, event: HookEvent, repo_id: str | None, now: int
) -> bool:
    if event.external_id is None:
        return repo_id is None
    row = await tx.fetch_one(
        "SELECT r.id, s.hook_seen_at FROM repos r LEFT JOIN repo_sync s ON s.repo_id = r.id"
        " WHERE r.connection_id = :connection_id AND r.external_id = :external_id"
        " AND r.disconnected_at IS NULL",
        connection_id=connection_id,
        external_id=event.external_id,
    )
    if row is None or repo_id not in {None, row["id"]}:
        return False
    if (row["hook_seen_at"] or 0) < now - _HOOK_SEEN_INTERVAL_MS:
        await tx.execute(
            "INSERT INTO repo_sync (repo_id, hook_seen_at) VALUES (:id, :now)"
            " ON CONFLICT (repo_id) DO UPDATE SET hook_seen_at = excluded.hook_seen_at",
            id=row["id"],
            now=now,
        )
    return True


async def _due_events(tx: Transaction) -> list[DueHookEvent]:
    rows = await tx.fetch_all(
        "SELECT id, connection_id, kind, external_id, number, tries FROM platform_hints"
        f" WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT {MAX_BATCH}",
        now=await tx.clock_ms(),
    )
    return [
        DueHookEvent(
            row["id"],
            row["connection_id"],
            HookEvent(row["kind"], row["external_id"], row["number"]),
            row["tries"],
        )
        for row in rows
    ]


async def _process(tx: Transaction, due: Sequence[DueHookEvent]) -> None:
    rows = await tx.fetch_all(
        "SELECT id FROM platform_hints WHERE due_at IS NOT NULL"
        " AND id IN (SELECT value FROM each(:ids)) /*postgresql FOR UPDATE SKIP LOCKED */",
        ids=[item.id for item in due],
    )
    # Another process may have processed some, or be about to.
    claimed = {row["id"] for row in rows}
    due = [item for item in due if item.id in claimed]
    # Many deliveries name the same thing.
    for connection_id, event in dict.fromkeys((item.connection_id, item.event) for item in due):
        await _make_due(tx, connection_id, event)
    await tx.execute(
        "UPDATE platform_hints SET due_at = NULL WHERE id IN (SELECT value FROM each(:ids))",
        ids=[item.id for item in due],
    )


async def _process_alone(db: Database, due: DueHookEvent) -> None:
    try:
        await db.transact(_process, [due])
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - retried a limited number of times
        _log.exception("a hook event was not processed")
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_LENGTH]
        await db.transact(_postpone, due, reason)


async def _make_due(tx: Transaction, connection_id: str, event: HookEvent) -> None:
    named = {"connection_id": connection_id, "external_id": event.external_id}
    if event.number is None:
        await record_change(tx, _NAMED_REPOS, **named)
    elif not await platform_pulls.mark_event(tx, connection_id, event.external_id, event.number):
        return
    if event.kind == "repository":
        # The event may mean that the platform is back.
        await health.end_pause(tx, connection_id)
    # Pushes and comments do not shorten the backoff of a repository whose syncs fail.
    await expedite_syncs(
        tx,
        _NAMED_REPOS,
        gap_ms=_PUSH_INTERVAL_MS if event.kind == "push" else 0,
        during_backoff=event.kind == "repository",
        **named,
    )


async def _postpone(tx: Transaction, due: DueHookEvent, reason: str) -> None:
    attempts = due.attempts + 1
    backoff = backoff_ms(due.attempts, _FIRST_BACKOFF_MS, _MAX_BACKOFF_MS)
    now = await tx.clock_ms()
    await tx.execute(
        "UPDATE platform_hints SET due_at = :due_at, error = :reason, tries = :tries"
        " WHERE id = :id",
        id=due.id,
        due_at=None if attempts >= MAX_ATTEMPTS else now + backoff,
        reason=reason,
        tries=attempts,
    )
