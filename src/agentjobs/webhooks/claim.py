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
from agentjobs.webhooks.turns import Cursor

# What one turn looks at: on SQLite the event loop waits for it.
_MOST_ORGANIZATIONS = 8
_ORGANIZATION_HOPS = 64
_ENDPOINT_HOPS = 32

_WAITING: dict[Kind, str] = {
    "first": "d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts = 0",
    "retry": "d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts > 0",
}
# Who waits is found by hopping through the index of what waits, from where the last turn ended,
# so that a long queue costs the others nothing.
_HOPS = """
WITH RECURSIVE waiting(id, hop) AS (
  SELECT (SELECT MIN(d.{column}) FROM deliveries d WHERE {waiting} AND d.{column} > :after), 1
  UNION ALL
  SELECT (SELECT MIN(d.{column}) FROM deliveries d WHERE {waiting} AND d.{column} > w.id), w.hop + 1
  FROM waiting w WHERE w.id IS NOT NULL AND w.hop < :hops
)
"""
_ORGANIZATIONS = _HOPS + "SELECT id FROM waiting WHERE id IS NOT NULL ORDER BY hop"
# Of each endpoint the first few. SQLite has no LATERAL, but takes a correlated list.
_CANDIDATES = (
    _HOPS
    + """
SELECT w.hop, w.id AS endpoint_id, found.id FROM waiting w
/*postgresql LEFT JOIN LATERAL ({few}) found ON true */
/*sqlite LEFT JOIN json_each((SELECT json_group_array(few.id) FROM ({few}) few)) each ON true
  LEFT JOIN deliveries found ON found.id = each.value */
WHERE w.id IS NOT NULL
"""
)
_FEW = """
SELECT d.id FROM deliveries d WHERE {waiting} AND d.endpoint_id = w.id AND {ready}
AND w.id NOT IN (SELECT value FROM each(:full)) ORDER BY {order} LIMIT :most
"""
# The empty text keeps PostgreSQL from the index of the endpoint's log, in which it would read all
# that waits for the endpoint; a job has only a few events.
_IN_ORDER = (
    "NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.job_id = d.job_id"
    " AND e.endpoint_id || '' = d.endpoint_id AND e.sequence < d.sequence"
    " AND e.status = 'pending' AND e.attempts = 0)"
)


def _candidates(kind: Kind, ready: str, order: str) -> str:
    waiting = f"{_WAITING[kind]} AND d.organization_id = :organization_id"
    few = _FEW.format(waiting=waiting, ready=ready, order=order)
    return _CANDIDATES.format(column="endpoint_id", waiting=waiting, few=few)


_WHO: dict[Kind, str] = {
    kind: _ORGANIZATIONS.format(column="organization_id", waiting=waiting)
    for kind, waiting in _WAITING.items()
}
_READY: dict[Kind, str] = {
    "first": _candidates("first", _IN_ORDER, "d.id"),
    "retry": _candidates("retry", "d.due_at <= :now", "d.due_at"),
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
    deliveries: list[tuple[Lane, ClaimedDelivery]] = []
    # Not all who wait were looked at, or others took some of what was chosen.
    there_is_more: bool = False


async def claim(tx: Transaction, kind: Kind, lanes: Lanes, terms: Terms, cursor: Cursor) -> Claimed:
    """As much as there is room for, of a few organizations at most."""
    draft = lanes.draft()
    chosen: list[tuple[Lane, Candidate]] = []
    organizations = await _organizations(tx, kind, draft, cursor)
    # So much is looked at for each; who has more waiting gets what others leave in the next turn.
    share = -(-draft.room(kind) // max(1, len(organizations)))
    for organization_id in organizations:
        chosen += await _choose(tx, kind, draft, terms, cursor, organization_id, share)
    taken = await _take(tx, chosen, terms)
    there_is_more = draft.room(kind) > 0 and cursor.is_in_the_middle
    return Claimed(taken.claims, there_is_more or taken.count < len(chosen))


async def _organizations(tx: Transaction, kind: Kind, lanes: Lanes, cursor: Cursor) -> list[str]:
    """Those whose turn it is, and that may have more."""
    if lanes.room(kind) <= 0:
        return []
    rows = await tx.fetch_all(_WHO[kind], after=cursor.after, hops=_ORGANIZATION_HOPS)
    waiting = [row["id"] for row in rows]
    open_ones = [each for each in waiting if lanes.room_of_organization(kind, each) > 0]
    now = open_ones[:_MOST_ORGANIZATIONS]
    if len(open_ones) > len(now):
        cursor.move(now[-1])
    else:
        cursor.move(waiting[-1] if len(waiting) == _ORGANIZATION_HOPS else "")
    return now


async def _choose(
    tx: Transaction,
    kind: Kind,
    lanes: Lanes,
    terms: Terms,
    cursor: Cursor,
    organization_id: str,
    share: int,
) -> list[tuple[Lane, Candidate]]:
    room = min(share, lanes.room_of_organization(kind, organization_id))
    if room <= 0:
        return []
    place = cursor.place_of(organization_id)
    most = min(lanes.most_of_endpoint(kind), place.share_of(room))
    rows = await tx.fetch_all(
        _READY[kind],
        organization_id=organization_id,
        after=place.after,
        hops=_ENDPOINT_HOPS,
        most=most,
        now=terms.now,
        full=lanes.full_endpoints(kind) | terms.without,
    )
    ordered = sorted(rows, key=lambda row: int(row["hop"]))
    candidates = [
        Candidate(row["id"], row["endpoint_id"], organization_id)
        for row in ordered
        if row["id"] is not None
    ]
    chosen = lanes.choose(kind, candidates)
    cursor.leave(
        organization_id,
        seen=list(dict.fromkeys(row["endpoint_id"] for row in ordered)),
        ready={one.endpoint_id for one in candidates},
        served={one.endpoint_id for _, one in chosen},
        was_cut=bool(ordered) and ordered[-1]["hop"] == _ENDPOINT_HOPS,
        was_short=most < lanes.most_of_endpoint(kind) and len(chosen) < room,
    )
    return chosen


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
