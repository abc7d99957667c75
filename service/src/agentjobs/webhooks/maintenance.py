"""Periodic work of every sender: expires leases, promotes secrets, fails unsendable deliveries."""

import logging
from collections.abc import Collection

from agentjobs.store.database import Database, Transaction
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.in_transaction import in_transaction
from agentjobs.webhooks.queue import FAIL_BATCH, fail_waiting_of_closed
from agentjobs_runtime.clock import DAY_MS, now_ms

_log = logging.getLogger(__name__)

_EXPIRE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL WHERE id IN"
    # Without the hint SQLite reads all deliveries in the order of their identifiers.
    " (SELECT id FROM deliveries /*sqlite INDEXED BY deliveries_leased */"
    "  WHERE lease_owner IS NOT NULL"
    f"  AND (lease_expires_at < {DATABASE_NOW}"
    # From before the clock was set back.
    f"    OR lease_expires_at > {DATABASE_NOW} + CAST(:max_lease_ms AS BIGINT))"
    "  AND id NOT IN (SELECT value FROM each(:in_progress))"
    "  ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */)"
)
_BRING_FORWARD = (
    "UPDATE deliveries SET due_at = :now WHERE id IN (SELECT id FROM deliveries"
    "  WHERE status = 'pending' AND lease_owner IS NULL AND attempts > 0 AND due_at > :limit"
    "  LIMIT :batch /*postgresql FOR UPDATE SKIP LOCKED */)"
)
_PROMOTE = (
    "UPDATE webhook_endpoints SET sealed = pending_sealed, key_id = pending_key_id,"
    " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL WHERE id IN"
    " (SELECT id FROM webhook_endpoints WHERE removed_at IS NULL AND pending_sealed IS NOT NULL"
    "  AND promote_at <= :now ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */)"
)


async def run_maintenance(
    db: Database, in_progress: Collection[str] = (), max_lease_ms: int = DAY_MS
) -> bool:
    """Returns whether more work is left.

    `in_progress` are the caller's own deliveries: their leases do not expire here.
    """
    expired, failed = await _maintain(db, in_progress, max_lease_ms)
    if expired:
        _log.warning("%d deliveries of a lost sender will be sent again", expired)
    return failed >= FAIL_BATCH


@in_transaction
async def bring_retries_forward(tx: Transaction, max_wait_ms: int) -> bool:
    """After the clock was set back, retries would be due as much later. Returns whether more are
    left."""
    now = await tx.clock_ms()
    limit = now + max_wait_ms
    return await tx.execute(_BRING_FORWARD, now=now, limit=limit, batch=FAIL_BATCH) >= FAIL_BATCH


@in_transaction
async def _maintain(
    tx: Transaction, in_progress: Collection[str], max_lease_ms: int
) -> tuple[int, int]:
    """How many leases expired, and how many deliveries failed."""
    # They may have been sent already; receivers recognize duplicates by `webhook-id`.
    expired = await tx.execute(
        _EXPIRE, now=now_ms(), in_progress=in_progress, max_lease_ms=max_lease_ms
    )
    await tx.execute(_PROMOTE, now=await tx.clock_ms())
    return expired, await fail_waiting_of_closed(tx)


def hold_statement(now: int) -> str:
    """Deliveries that waited when a backup was made are not sent on their own after a restore: the
    service may have sent them after the backup. They can be redelivered."""
    return (
        f"UPDATE deliveries SET status = 'failed', due_at = {now}, lease_owner = NULL,"
        " lease_expires_at = NULL WHERE status = 'pending'"
    )
