"""Rotates webhook secrets without downtime: a pending secret signs beside the old one first."""

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Transaction
from agentjobs.webhooks.endpoints import Endpoint, audit_entry, lock_endpoint, org_flag, update_row
from agentjobs.webhooks.signing import new_secret, seal_secret
from agentjobs_runtime.clock import HOUR_MS
from agentjobs_runtime.problems import Problem

MAX_OVERLAP_HOURS = 168

# A time before all others: the pending secret signs alone. Maintenance removes the former one.
_AT_ONCE = 0


@audit.in_transaction
async def rotate_secret(
    tx: Transaction, keys: SealingKeys, organization: str, endpoint: str, overlap_hours: int = 24
) -> tuple[Endpoint, str]:
    """The new secret signs beside the old one for `overlap_hours`, then alone."""
    if not 0 <= overlap_hours <= MAX_OVERLAP_HOURS:
        raise Problem("invalid_overlap", f"The overlap must be 0 to {MAX_OVERLAP_HOURS} hours.")
    current = await lock_endpoint(tx, organization, endpoint)
    owner = await find_organization(tx, organization)
    secret = new_secret()
    sealed = seal_secret(keys, owner.id, current.id, secret)
    # The main secret stays, or the former pending one if its time has come.
    updated = await update_row(
        tx,
        current,
        audit_entry("webhook.secret_rotated", current, overlap_hours=overlap_hours),
        "sealed = CASE WHEN promote_at <= :now THEN pending_sealed ELSE sealed END,"
        " key_id = CASE WHEN promote_at <= :now THEN pending_key_id ELSE key_id END,"
        " pending_sealed = :sealed, pending_key_id = :key_id, promote_at = :promote_at",
        sealed=sealed.data,
        key_id=sealed.key_id,
        promote_at=await tx.clock_ms() + overlap_hours * HOUR_MS if overlap_hours else _AT_ONCE,
    )
    return updated, secret


@audit.in_transaction
async def promote_secret(tx: Transaction, organization: str, endpoint: str) -> Endpoint:
    current = await lock_endpoint(tx, organization, endpoint)
    if not current.has_pending_secret:
        raise Problem(
            "no_pending_secret",
            f"{current.id} has no pending secret. `agentjobs webhooks rotate-secret "
            f"{current.id}{org_flag(organization)}` creates one.",
        )
    entry = audit_entry("webhook.secret_promoted", current)
    return await update_row(tx, current, entry, "promote_at = :at", at=_AT_ONCE)
