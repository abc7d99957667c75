"""A new secret for an endpoint without a break: pending beside the old one, then promoted."""

from agentjobs.clock import now_ms
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.endpoints import Endpoint, change, entry, find_endpoint, org_flag
from agentjobs.webhooks.signature import new_secret
from agentjobs.webhooks.signing_secrets import SecretBox, seal_secret, sealed_secrets

MOST_OVERLAP_HOURS = 168

_HOUR_MS = 3_600_000


async def rotate_secret(
    db: Database, keys: SealingKeys, organization: str, endpoint: str, overlap_hours: int = 24
) -> tuple[Endpoint, str]:
    """The new one signs beside the old one for that long, and alone after it."""
    if not 0 <= overlap_hours <= MOST_OVERLAP_HOURS:
        raise Problem("invalid_overlap", f"The overlap is 0 to {MOST_OVERLAP_HOURS} hours, a week.")
    found = await find_endpoint(db, organization, endpoint)
    owner = await find_organization(db, organization)
    secret = new_secret()
    sealed = seal_secret(keys, owner.id, found.id, secret)
    rotated = entry("webhook.secret_rotated", found, overlap_hours=overlap_hours)
    if overlap_hours:
        overlap_ms = overlap_hours * _HOUR_MS
        return await db.transact(_set_pending, found, sealed, overlap_ms, rotated), secret
    return await db.transact(_set_secret, found, sealed, rotated), secret


async def promote_secret(db: Database, organization: str, endpoint: str) -> Endpoint:
    found = await find_endpoint(db, organization, endpoint)
    if not found.has_pending_secret:
        raise _nothing_pending(found)
    return await db.transact(_promote, found, entry("webhook.secret_promoted", found))


async def check_endpoint_secrets(db: Database, keys: SealingKeys) -> int:
    """How many endpoints there are, of all organizations; raises Problem if one is locked here."""
    rows = await db.fetch_all(
        "SELECT id, organization_id, sealed, pending_sealed, promote_at FROM webhook_endpoints"
        " WHERE removed_at IS NULL ORDER BY id"
    )
    box = SecretBox(keys)
    for row in rows:
        box.open(row["organization_id"], row["id"], sealed_secrets(row), now_ms())
    return len(rows)


def _nothing_pending(endpoint: Endpoint) -> Problem:
    return Problem(
        "no_pending_secret",
        f"No secret of {endpoint.id} is pending: the newest one signs. `agentjobs webhooks "
        f"rotate-secret {endpoint.id}{org_flag(endpoint.organization)}` makes another.",
    )


async def _promote(tx: Transaction, endpoint: Endpoint, entry: audit.Entry) -> Endpoint:
    """Somebody else, or the clock, may have done it meanwhile."""
    pending = await tx.fetch_one(
        "SELECT id FROM webhook_endpoints WHERE id = :id AND pending_sealed IS NOT NULL"
        " /*postgresql FOR UPDATE */",
        id=endpoint.id,
    )
    if pending is None:
        raise _nothing_pending(endpoint)
    return await change(
        tx,
        endpoint,
        entry,
        "sealed = pending_sealed, key_id = pending_key_id,"
        " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL",
    )


async def _set_secret(
    tx: Transaction, endpoint: Endpoint, sealed: Sealed, entry: audit.Entry
) -> Endpoint:
    return await change(
        tx,
        endpoint,
        entry,
        "sealed = :sealed, key_id = :key_id,"
        " pending_sealed = NULL, pending_key_id = NULL, promote_at = NULL",
        sealed=sealed.data,
        key_id=sealed.key_id,
    )


async def _set_pending(
    tx: Transaction, endpoint: Endpoint, sealed: Sealed, overlap_ms: int, entry: audit.Entry
) -> Endpoint:
    """The main one stays, or is the former pending one if the time of that has come."""
    return await change(
        tx,
        endpoint,
        entry,
        "sealed = CASE WHEN promote_at <= :now THEN pending_sealed ELSE sealed END,"
        " key_id = CASE WHEN promote_at <= :now THEN pending_key_id ELSE key_id END,"
        " pending_sealed = :sealed, pending_key_id = :key_id, promote_at = :promote_at",
        sealed=sealed.data,
        key_id=sealed.key_id,
        promote_at=now_ms() + overlap_ms,
    )
