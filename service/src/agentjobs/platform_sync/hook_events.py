"""Webhook events of platforms: each delivery counts once, and makes what it names due for a sync.

No payload is trusted: the sync asks the platform. Rows of `platform_hints` are the deliveries.
"""

from typing import Literal

from agentjobs.connections import health
from agentjobs.platforms.hooks import HookEvent
from agentjobs.pulls import platform_pulls
from agentjobs.repos.queues import SYNC_TOPIC, expedite_syncs, record_change
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute, in_transaction
from agentjobs_runtime.clock import DAY_MS, SECOND_MS
from agentjobs_runtime.identifiers import new_id

MAX_STORED = 10_000

# unconnected: the repository is not connected, so the delivery is not stored.
DeliveryStatus = Literal["new", "known", "unconnected"]

_HOOK_SEEN_INTERVAL_MS = 60 * SECOND_MS
# Between two syncs of a repository that is pushed to all the time.
_PUSH_INTERVAL_MS = 10 * SECOND_MS
_PRUNE_BATCH = 500

_NAMED_REPOS = (
    "r.connection_id = :connection_id"
    " AND (CAST(:external_id AS TEXT) IS NULL OR r.external_id = :external_id)"
)


@in_transaction
async def record_hook_delivery(
    tx: Transaction,
    connection_id: str,
    delivery_id: str,
    event: HookEvent | None,
    repo_id: str | None = None,
) -> DeliveryStatus:
    """Make what the event names due. A delivery without an event only shows that hooks arrive.

    With `repo_id`, it is signed with the secret of that repository, and can name no other one.
    """
    now = await tx.clock_ms()
    status: DeliveryStatus = "unconnected"
    if event is not None and await _is_connected(tx, connection_id, event, repo_id, now):
        is_new = await tx.execute(
            "INSERT INTO platform_hints (id, connection_id, delivery_id, received_at)"
            " VALUES (:id, :connection_id, :delivery_id, :now)"
            " ON CONFLICT (connection_id, delivery_id) DO NOTHING",
            id=new_id("hnt"),
            connection_id=connection_id,
            delivery_id=delivery_id,
            now=now,
        )
        if is_new:
            await _make_due(tx, connection_id, event)
        status = "new" if is_new else "known"
    # Last, because a sync writes the connection's row last too.
    await health.record_hook(tx, connection_id)
    return status


async def prune_hook_events(db: Database, now: int) -> int:
    """Delete a batch of deliveries that are older than a day, or of a connection that has very
    many; returns how many were deleted."""
    rows = await db.fetch_all(
        "SELECT id FROM platform_hints WHERE received_at < :before"
        f" ORDER BY received_at LIMIT {_PRUNE_BATCH}",
        before=now - DAY_MS,
    )
    if not rows:
        rows = await db.fetch_all(
            "SELECT h.id FROM platform_hints h JOIN (SELECT connection_id FROM platform_hints"
            "  GROUP BY connection_id HAVING COUNT(*) > :most LIMIT 1) c"
            " ON c.connection_id = h.connection_id"
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


async def _make_due(tx: Transaction, connection_id: str, event: HookEvent) -> None:
    named = {"connection_id": connection_id, "external_id": event.external_id}
    if event.number is None:
        await record_change(tx, _NAMED_REPOS, **named)
    elif not await platform_pulls.mark_event(tx, connection_id, event.external_id, event.number):
        return
    # Pushes and comments do not shorten the backoff of a repository whose syncs fail.
    await expedite_syncs(
        tx,
        _NAMED_REPOS,
        gap_ms=_PUSH_INTERVAL_MS if event.kind == "push" else 0,
        during_backoff=event.kind == "repository",
        **named,
    )
    if event.kind == "repository":
        # The event may mean that the platform is back.
        await health.end_pause(tx, connection_id)
    tx.announce(SYNC_TOPIC)
