"""What time brings about: leases that ran out, secrets whose turn has come, closed endpoints."""

import logging

from agentjobs.clock import now_ms
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import CLOCK

_log = logging.getLogger(__name__)
# SQLite's event loop waits for a statement.
_BATCH = 200

_EXPIRE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL"
    f" WHERE lease_owner IS NOT NULL AND lease_expires_at < {CLOCK}"
)
_PROMOTE = (
    "UPDATE webhook_endpoints SET sealed = pending_sealed, key_id = pending_key_id,"
    " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL"
    " WHERE removed_at IS NULL AND pending_sealed IS NOT NULL AND promote_at <= :now"
)
# An event may be written while its endpoint is being closed; and a long queue takes several steps.
_GIVE_UP = (
    "UPDATE deliveries SET status = 'failed' WHERE id IN (SELECT d.id FROM webhook_endpoints w"
    " JOIN deliveries d ON d.endpoint_id = w.id AND d.status = 'pending'"
    "  AND d.lease_owner IS NULL AND d.attempts {attempts}"
    " WHERE w.disabled_at IS NOT NULL OR w.removed_at IS NOT NULL LIMIT :batch"
    " /*postgresql FOR UPDATE OF d SKIP LOCKED */)"
)


async def keep_up(db: Database) -> None:
    expired = await db.transact(_expire_leases, now_ms())
    if expired:
        _log.warning("%d deliveries of a lost sender are sent again", expired)
    await db.transact(_promote_secrets, now_ms())
    while await db.transact(_give_up_on_closed) >= _BATCH:
        pass


async def _expire_leases(tx: Transaction, now: int) -> int:
    """Whether they were sent nobody knows; a receiver knows them by their `webhook-id`."""
    return await tx.execute(_EXPIRE, now=now)


async def _promote_secrets(tx: Transaction, now: int) -> None:
    await tx.execute(_PROMOTE, now=now)


async def _give_up_on_closed(tx: Transaction) -> int:
    first = await tx.execute(_GIVE_UP.format(attempts="= 0"), batch=_BATCH)
    return first + await tx.execute(_GIVE_UP.format(attempts="> 0"), batch=_BATCH)
