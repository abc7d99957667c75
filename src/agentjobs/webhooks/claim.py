"""Taking deliveries from the queue: in order for each job, fair to endpoints, under a lease.

A delivery that was never attempted is taken only when no earlier event of its job still waits for
its first attempt at the same endpoint. A retry waits for nobody, and nobody waits for it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks.closing import give_up
from agentjobs.webhooks.lanes import Candidate, Kind, Lane, Lanes
from agentjobs.webhooks.model import ClaimedDelivery
from agentjobs.webhooks.rotation import sealed_secrets

# So many endpoints are looked at in one turn: on SQLite the event loop waits for it.
_HOPS = 64

# Endpoints are found by hopping through the index of what waits, from where the last turn ended,
# so that a long queue of one of them costs the others nothing; then the first few of each. SQLite
# has no LATERAL, but takes a correlated list.
_CANDIDATES = """
WITH RECURSIVE waiting(endpoint_id, hop) AS (
  SELECT MIN(d.endpoint_id), 1 FROM deliveries d WHERE {waiting} AND d.endpoint_id > :after
  UNION ALL
  SELECT (SELECT MIN(d.endpoint_id) FROM deliveries d WHERE {waiting}
    AND d.endpoint_id > w.endpoint_id), w.hop + 1
  FROM waiting w WHERE w.endpoint_id IS NOT NULL AND w.hop < :hops
)
SELECT w.hop, w.endpoint_id, o.organization_id, found.id
FROM waiting w JOIN webhook_endpoints o ON o.id = w.endpoint_id
/*postgresql LEFT JOIN LATERAL ({few}) found ON true */
/*sqlite LEFT JOIN json_each((SELECT json_group_array(few.id) FROM ({few}) few)) each ON true
  LEFT JOIN deliveries found ON found.id = each.value */
"""
_FEW = """
SELECT d.id FROM deliveries d WHERE d.endpoint_id = w.endpoint_id AND {waiting} AND {ready}
AND w.endpoint_id NOT IN (SELECT value FROM each(:full_endpoints))
AND o.organization_id NOT IN (SELECT value FROM each(:full_organizations))
ORDER BY {order} LIMIT :most
"""
_WAITING = "d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts {attempts}"
_IN_ORDER = (
    "NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.job_id = d.job_id"
    " AND e.endpoint_id = d.endpoint_id AND e.sequence < d.sequence"
    " AND e.status = 'pending' AND e.attempts = 0)"
)


def _candidates(attempts: str, ready: str, order: str) -> str:
    waiting = _WAITING.format(attempts=attempts)
    return _CANDIDATES.format(
        waiting=waiting, few=_FEW.format(waiting=waiting, ready=ready, order=order)
    )


_READY: dict[Kind, str] = {
    "first": _candidates("= 0", _IN_ORDER, "d.id"),
    "retry": _candidates("> 0", "d.due_at <= :now", "d.due_at"),
}
# A lease is compared with the clock it was made by.
CLOCK = (
    "/*postgresql CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) */ /*sqlite :now */"
)
# Only here are rows locked, and none that is not taken; what another sender is at is left to it.
_TAKE = (
    f"UPDATE deliveries SET lease_owner = :owner, lease_expires_at = {CLOCK} + :lease_ms,"
    " fence = fence + 1 WHERE id IN (SELECT id FROM deliveries"
    "  WHERE id IN (SELECT value FROM each(:ids)) AND status = 'pending' AND lease_owner IS NULL"
    "  ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */) RETURNING id"
)
_READ = (
    "SELECT d.id, d.fence, d.organization_id, d.endpoint_id, d.event_id, d.event, d.job_id,"
    " d.sequence, d.attempts, d.failures, e.body, w.url, w.sealed, w.pending_sealed, w.promote_at,"
    " COALESCE(w.disabled_at, w.removed_at) AS closed_at"
    " FROM deliveries d JOIN webhook_endpoints w ON w.id = d.endpoint_id"
    " JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence"
    " WHERE d.id IN (SELECT value FROM each(:ids)) ORDER BY d.id"
)
_RELEASE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL"
    " WHERE id = :id AND fence = :fence AND lease_owner = :owner"
)
_RELEASE_ALL = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL WHERE lease_owner = :owner"
)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Whose claim it is, for how long, and which endpoints it leaves out."""

    owner: str
    lease_ms: int
    now: int
    without: frozenset[str] = frozenset()


class Claimed(msgspec.Struct, frozen=True):
    """`after` is the endpoint behind which the next turn goes on; "" is the beginning."""

    deliveries: list[tuple[Lane, ClaimedDelivery]] = []
    after: str = ""
    # Not all who wait were looked at, or others took some of what was chosen.
    there_is_more: bool = False


async def claim(
    tx: Transaction, kind: Kind, lanes: Lanes, terms: Terms, after: str = ""
) -> Claimed:
    if lanes.room(kind) <= 0:
        return Claimed(after=after)
    rows = await tx.fetch_all(
        _READY[kind],
        after=after,
        hops=_HOPS,
        most=lanes.most_of_endpoint(kind),
        now=terms.now,
        full_endpoints=lanes.full_endpoints(kind) | terms.without,
        full_organizations=lanes.full_organizations(kind),
    )
    candidates = _found(rows)
    chosen = lanes.choose(kind, candidates)
    taken = await _take(tx, chosen, terms)
    on = _go_on_after(rows, candidates, {one.endpoint_id for _, one in chosen}, after)
    there_is_more = bool(after or on) or taken.count < len(chosen)
    return Claimed(taken.claims, on, there_is_more)


def _go_on_after(
    rows: Sequence[Row], candidates: Iterable[Candidate], served: set[str], after: str
) -> str:
    """Before the first endpoint that there was no room for; else behind the last one."""
    passed_over = {one.endpoint_id for one in candidates} - served
    before = after
    for endpoint_id in _in_hop_order(rows):
        if endpoint_id in passed_over:
            return before
        before = endpoint_id
    return before if any(row["hop"] == _HOPS for row in rows) else ""


def _in_hop_order(rows: Sequence[Row]) -> list[str]:
    hops = {row["hop"]: row["endpoint_id"] for row in rows}
    return [hops[hop] for hop in sorted(hops)]


async def release(tx: Transaction, deliveries: Iterable[ClaimedDelivery], owner: str) -> None:
    """Not sent after all: anybody may take them."""
    rows = [{"id": one.id, "fence": one.fence, "owner": owner} for one in deliveries]
    await tx.execute_many(_RELEASE, rows)


async def release_all(tx: Transaction, owner: str) -> None:
    """Whatever it still has: a turn may have been cut off between its claim and its end."""
    await tx.execute(_RELEASE_ALL, owner=owner)


async def read_claimed(tx: Transaction, ids: Sequence[str]) -> list[ClaimedDelivery]:
    return [_claimed(row) for row in await tx.fetch_all(_READ, ids=ids)]


class _Taken(msgspec.Struct, frozen=True):
    count: int
    claims: list[tuple[Lane, ClaimedDelivery]]


async def _take(tx: Transaction, chosen: Sequence[tuple[Lane, Candidate]], terms: Terms) -> _Taken:
    if not chosen:
        return _Taken(0, [])
    lane_of = {one.id: lane for lane, one in chosen}
    rows = await tx.fetch_all(
        _TAKE, ids=list(lane_of), owner=terms.owner, lease_ms=terms.lease_ms, now=terms.now
    )
    taken = [row["id"] for row in rows]
    claimed = [one for one in await read_claimed(tx, taken) if not one.is_closed]
    # Its endpoint was closed while the event was written, or the event is gone with its job.
    lost = set(taken) - {one.id for one in claimed}
    if lost:
        await give_up(tx, sorted(lost), terms.now)
    return _Taken(len(taken), [(lane_of[one.id], one) for one in claimed])


def _found(rows: Iterable[Row]) -> list[Candidate]:
    """In the order of the hops, and of each endpoint the first come first."""
    ready = [row for row in rows if row["id"] is not None]
    ready.sort(key=lambda row: row["hop"])
    return [Candidate(row["id"], row["endpoint_id"], row["organization_id"]) for row in ready]


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
