"""What time brings about: leases that ran out, secrets whose turn has come, closed endpoints."""

import logging
from collections.abc import Collection

from agentjobs.clock import now_ms
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.claim import CLOCK
from agentjobs.webhooks.closing import BATCH, fail_waiting_of_closed

_log = logging.getLogger(__name__)

_EXPIRE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL WHERE id IN"
    " (SELECT id FROM deliveries WHERE lease_owner IS NOT NULL"
    f"  AND lease_expires_at < {CLOCK} AND id NOT IN (SELECT value FROM each(:in_hand))"
    "  ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */)"
)
_PROMOTE = (
    "UPDATE webhook_endpoints SET sealed = pending_sealed, key_id = pending_key_id,"
    " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL WHERE id IN"
    " (SELECT id FROM webhook_endpoints WHERE removed_at IS NULL AND pending_sealed IS NOT NULL"
    "  AND promote_at <= :now ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */)"
)


async def keep_up(db: Database, in_hand: Collection[str] = ()) -> bool:
    """True: there is more to do, soon. What is `in_hand` is the caller's own, however late."""
    expired = await db.transact(_expire_leases, now_ms(), in_hand)
    if expired:
        _log.warning("%d deliveries of a lost sender are sent again", expired)
    await db.transact(_promote_secrets, now_ms())
    return await db.transact(fail_waiting_of_closed, now_ms()) >= BATCH


async def _expire_leases(tx: Transaction, now: int, in_hand: Collection[str]) -> int:
    """Whether they were sent nobody knows; a receiver knows them by their `webhook-id`."""
    return await tx.execute(_EXPIRE, now=now, in_hand=in_hand)


async def _promote_secrets(tx: Transaction, now: int) -> None:
    await tx.execute(_PROMOTE, now=now)
