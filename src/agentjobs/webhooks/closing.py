"""What waited for an endpoint that takes nothing any more fails, at that time, in small steps."""

from collections.abc import Sequence

from agentjobs.store.database import Transaction

# SQLite's event loop waits for a statement.
BATCH = 200

_FAIL = (
    "UPDATE deliveries SET status = 'failed', due_at = :now, lease_owner = NULL,"
    " lease_expires_at = NULL WHERE id IN ({which})"
)
# By the index of the endpoint's log. What is locked is being taken by a sender, or failed by
# somebody else.
_WAITING = (
    "SELECT d.id FROM {source} WHERE {condition} AND d.status || '' = 'pending'"
    " AND d.lease_owner IS NULL LIMIT :batch /*postgresql FOR UPDATE OF d SKIP LOCKED */"
)
_OF_ENDPOINT = _FAIL.format(
    which=_WAITING.format(source="deliveries d", condition="d.endpoint_id = :endpoint_id")
)
_OF_CLOSED = _FAIL.format(
    which=_WAITING.format(
        # A cross join is done by SQLite in this order, and never begins with the long table.
        source="webhook_endpoints w CROSS JOIN deliveries d",
        condition="COALESCE(w.disabled_at, w.removed_at) IS NOT NULL AND d.endpoint_id = w.id",
    )
)


async def give_up(tx: Transaction, ids: Sequence[str], now: int) -> None:
    """Of those in one's own hands."""
    await tx.execute(_FAIL.format(which="SELECT value FROM each(:ids)"), ids=ids, now=now)


async def fail_waiting(tx: Transaction, endpoint_id: str, now: int) -> int:
    """A batch of it; what is being sent at this moment is the sender's to settle."""
    return await tx.execute(_OF_ENDPOINT, endpoint_id=endpoint_id, batch=BATCH, now=now)


async def fail_waiting_of_closed(tx: Transaction, now: int) -> int:
    """A batch, of any endpoint: an event may be written while its endpoint is being closed."""
    return await tx.execute(_OF_CLOSED, batch=BATCH, now=now)
