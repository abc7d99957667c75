"""Taking deliveries from the queue: in order for each job, fair to endpoints, under a lease.

A delivery that was never attempted is taken only when no earlier event of its job still waits for
its first attempt at the same endpoint. A retry waits for nobody, and nobody waits for it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks.lanes import Candidate, Lane, Lanes
from agentjobs.webhooks.model import ClaimedDelivery
from agentjobs.webhooks.rotation import sealed_secrets

_WAITING = "{d}.status = 'pending' AND {d}.lease_owner IS NULL AND {d}.attempts {attempts}"
# Endpoints are found by hopping through the index of what waits, so that a long queue of one of
# them costs the others nothing; then the first few of each. SQLite has no LATERAL, but takes a
# correlated list.
_CANDIDATES = """
WITH RECURSIVE waiting(endpoint_id) AS (
  SELECT MIN(d.endpoint_id) FROM deliveries d WHERE {waiting}
  UNION ALL
  SELECT (SELECT MIN(d.endpoint_id) FROM deliveries d WHERE {waiting}
    AND d.endpoint_id > w.endpoint_id)
  FROM waiting w WHERE w.endpoint_id IS NOT NULL
)
SELECT found.id, found.organization_id, w.endpoint_id FROM waiting w
/*postgresql CROSS JOIN LATERAL ({few} FOR UPDATE OF d SKIP LOCKED) found */
/*sqlite CROSS JOIN json_each((SELECT json_group_array(id) FROM ({few}))) each
  CROSS JOIN deliveries found ON found.id = each.value */
WHERE w.endpoint_id IS NOT NULL AND w.endpoint_id NOT IN (SELECT value FROM each(:full))
"""
_FIRST = _CANDIDATES.format(
    waiting=_WAITING.format(d="d", attempts="= 0"),
    few="SELECT d.id, d.organization_id FROM deliveries d WHERE d.endpoint_id = w.endpoint_id"
    f" AND {_WAITING.format(d='d', attempts='= 0')}"
    " AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.job_id = d.job_id"
    "  AND e.endpoint_id = d.endpoint_id AND e.sequence < d.sequence"
    "  AND e.status = 'pending' AND e.attempts = 0)"
    " ORDER BY d.id LIMIT :most",
)
_RETRIES = _CANDIDATES.format(
    waiting=_WAITING.format(d="d", attempts="> 0"),
    few="SELECT d.id, d.organization_id FROM deliveries d WHERE d.endpoint_id = w.endpoint_id"
    f" AND {_WAITING.format(d='d', attempts='> 0')} AND d.due_at <= :now"
    " ORDER BY d.due_at LIMIT :most",
)
# A lease is compared with the clock it was made by.
CLOCK = (
    "/*postgresql CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) */ /*sqlite :now */"
)
_TAKE = (
    f"UPDATE deliveries SET lease_owner = :owner, lease_expires_at = {CLOCK} + :lease_ms,"
    " fence = fence + 1 WHERE id IN (SELECT value FROM each(:ids))"
)
_READ = (
    "SELECT d.id, d.fence, d.organization_id, d.endpoint_id, d.event_id, d.event, d.job_id,"
    " d.sequence, d.attempts, d.failures, e.body, w.url, w.sealed, w.pending_sealed, w.promote_at,"
    " COALESCE(w.disabled_at, w.removed_at) AS closed_at"
    " FROM deliveries d JOIN webhook_endpoints w ON w.id = d.endpoint_id"
    " JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence"
    " WHERE d.id IN (SELECT value FROM each(:ids)) ORDER BY d.id"
)
# What is left of an endpoint that was closed while its event was written.
_GIVE_UP = (
    "UPDATE deliveries SET status = 'failed', lease_owner = NULL, lease_expires_at = NULL"
    " WHERE id IN (SELECT value FROM each(:ids))"
)
_RELEASE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL"
    " WHERE id = :id AND fence = :fence AND lease_owner = :owner"
)

Claims = list[tuple[Lane, ClaimedDelivery]]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Whose claim it is, for how long, and which endpoints it leaves out."""

    owner: str
    lease_ms: int
    now: int
    without: tuple[str, ...] = ()


async def claim_first(tx: Transaction, lanes: Lanes, terms: Terms) -> Claims:
    if not (lanes.is_open("first") or lanes.is_open("slow")):
        return []
    full = [*terms.without, *lanes.full_endpoints(["first", "slow"])]
    rows = await tx.fetch_all(_FIRST, full=full, most=lanes.most_of_endpoint("first"))
    return await _take(tx, lanes.choose(map(_candidate, rows), are_retries=False), terms)


async def claim_retries(tx: Transaction, lanes: Lanes, terms: Terms) -> Claims:
    if not lanes.is_open("retry"):
        return []
    full = [*terms.without, *lanes.full_endpoints(["retry"])]
    most = lanes.most_of_endpoint("retry")
    rows = await tx.fetch_all(_RETRIES, full=full, most=most, now=terms.now)
    return await _take(tx, lanes.choose(map(_candidate, rows), are_retries=True), terms)


async def release(tx: Transaction, deliveries: Iterable[ClaimedDelivery], owner: str) -> None:
    """Not sent after all: anybody may take them."""
    rows = [{"id": one.id, "fence": one.fence, "owner": owner} for one in deliveries]
    await tx.execute_many(_RELEASE, rows)


async def _take(tx: Transaction, chosen: Sequence[tuple[Lane, Candidate]], terms: Terms) -> Claims:
    if not chosen:
        return []
    lane_of = {one.id: lane for lane, one in chosen}
    ids = list(lane_of)
    await tx.execute(_TAKE, ids=ids, owner=terms.owner, lease_ms=terms.lease_ms, now=terms.now)
    claimed = await read_claimed(tx, ids)
    closed = [one.id for one in claimed if one.is_closed]
    if closed:
        await tx.execute(_GIVE_UP, ids=closed)
    return [(lane_of[one.id], one) for one in claimed if not one.is_closed]


async def read_claimed(tx: Transaction, ids: Sequence[str]) -> list[ClaimedDelivery]:
    return [_claimed(row) for row in await tx.fetch_all(_READ, ids=ids)]


def _candidate(row: Row) -> Candidate:
    return Candidate(row["id"], row["endpoint_id"], row["organization_id"])


def _claimed(row: Row) -> ClaimedDelivery:
    return ClaimedDelivery(
        id=row["id"],
        fence=row["fence"],
        organization_id=row["organization_id"],
        endpoint_id=row["endpoint_id"],
        url=row["url"],
        secrets=sealed_secrets(row),
        event_id=row["event_id"],
        event=row["event"],
        job_id=row["job_id"],
        sequence=row["sequence"],
        body=bytes(row["body"]),
        attempts=row["attempts"],
        failures=row["failures"],
        is_closed=row["closed_at"] is not None,
    )
