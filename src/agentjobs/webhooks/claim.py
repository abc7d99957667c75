"""Taking deliveries from the queue: in order for each job, fair to endpoints, under a lease.

A delivery that was never attempted is taken only when no earlier event of its job still waits for
its first attempt at the same endpoint. A retry waits for nobody, and nobody waits for it.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from agentjobs.clock import now_ms
from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks.closing import give_up
from agentjobs.webhooks.concurrency import Candidate, Kind, Lane, Lanes
from agentjobs.webhooks.fairness import Cursor, Look
from agentjobs.webhooks.model import ClaimedDelivery
from agentjobs.webhooks.signing_secrets import sealed_secrets

# A success is noted on its endpoint this often, and at once when it ends a time of failures.
HEALTH_MS = 60_000

# What one turn looks at: on SQLite the event loop waits for it.
_ORGANIZATIONS = 8
_ENDPOINTS = 32

# Who waits is found by hopping through the index of what waits, from where the last turn ended,
# so that a long queue costs the others nothing: the organizations, the endpoints of each, and of
# each endpoint the first few. SQLite has no LATERAL, but takes a correlated list.
_CANDIDATES = """
WITH RECURSIVE organizations(id, hop) AS (
  SELECT (SELECT d.organization_id FROM deliveries d
    WHERE {waiting} AND d.organization_id > :after ORDER BY d.organization_id LIMIT 1), 1
  UNION ALL
  SELECT (SELECT d.organization_id FROM deliveries d
    WHERE {waiting} AND d.organization_id > o.id ORDER BY d.organization_id LIMIT 1), o.hop + 1
  FROM organizations o WHERE o.id IS NOT NULL AND o.hop < {organizations}
),
endpoints(organization_id, organization_hop, id, hop) AS (
  SELECT o.id, o.hop, (SELECT d.endpoint_id FROM deliveries d WHERE {waiting}
    AND d.organization_id = o.id AND d.endpoint_id > COALESCE((SELECT substr(value,
      length(o.id) + 2) FROM each(:places) WHERE substr(value, 1, length(o.id) + 1) = o.id || ' '
    ), '') ORDER BY d.endpoint_id LIMIT 1), 1
  FROM organizations o
  WHERE o.id IS NOT NULL AND o.id NOT IN (SELECT value FROM each(:full_organizations))
  UNION ALL
  SELECT w.organization_id, w.organization_hop, (SELECT d.endpoint_id FROM deliveries d
    WHERE {waiting} AND d.organization_id = w.organization_id AND d.endpoint_id > w.id
    ORDER BY d.endpoint_id LIMIT 1), w.hop + 1
  FROM endpoints w WHERE w.id IS NOT NULL AND w.hop < {endpoints}
)
SELECT w.organization_hop, w.organization_id, w.hop, w.id AS endpoint_id, found.id
FROM (SELECT * FROM endpoints WHERE id IS NOT NULL
  AND id NOT IN (SELECT value FROM each(:full_endpoints))) w
/*postgresql CROSS JOIN LATERAL ({few}) found */
/*sqlite CROSS JOIN json_each((SELECT json_group_array(few.id) FROM ({few}) few)) each
  CROSS JOIN deliveries found ON found.id = each.value */
UNION ALL
SELECT organization_hop, organization_id, hop, id, NULL FROM endpoints WHERE id IS NOT NULL
"""
# Not for full endpoints: nothing of what waits for them is to be read.
_FEW = """
SELECT d.id FROM deliveries d WHERE {waiting} AND d.organization_id = w.organization_id
AND d.endpoint_id = w.id AND {ready} ORDER BY {order} LIMIT {most}
"""
_WAITING = "d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts {attempts}"
# The empty text keeps PostgreSQL from the index of the endpoint's log: a job has only few events.
_IN_ORDER = (
    "NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.job_id = d.job_id"
    " AND e.endpoint_id || '' = d.endpoint_id AND e.sequence < d.sequence"
    " AND e.status = 'pending' AND e.attempts = 0)"
)


class _Ready(NamedTuple):
    attempts: str
    condition: str
    order: str


_READY: dict[Kind, _Ready] = {
    "first": _Ready("= 0", _IN_ORDER, "d.id"),
    "retry": _Ready("> 0", "d.due_at <= :now", "d.due_at"),
}


@cache
def _candidates(kind: Kind, organizations: int, most: int) -> str:
    """With numbers in the text: with such parameters PostgreSQL would plan every call anew."""
    ready = _READY[kind]
    waiting = _WAITING.format(attempts=ready.attempts)
    few = _FEW.format(waiting=waiting, ready=ready.condition, order=ready.order, most=most)
    return _CANDIDATES.format(
        waiting=waiting, few=few, organizations=organizations, endpoints=_ENDPOINTS
    )


# A lease is compared with the clock it was made by.
CLOCK = (
    "/*postgresql CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) */ /*sqlite :now */"
)
# Only here are rows locked, and none that is not taken; what another sender is at is left to it.
_TAKE = (
    f"UPDATE deliveries SET lease_owner = :owner, lease_expires_at = {CLOCK} + :lease_ms,"
    " fence = fence + 1 WHERE id IN (SELECT id FROM deliveries"
    "  WHERE id IN (SELECT value FROM each(:ids)) AND status = 'pending' AND lease_owner IS NULL"
    "  ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */) RETURNING {columns}"
)
_READ = (
    "SELECT d.id, d.fence, d.organization_id, d.endpoint_id, d.event_id, d.event, d.job_id,"
    " d.sequence, d.attempts, d.failures, e.body, w.url, w.sealed, w.pending_sealed, w.promote_at,"
    " COALESCE(w.disabled_at, w.removed_at) AS closed_at, w.failing_since, w.last_success_at"
    " FROM {source} d LEFT JOIN webhook_endpoints w ON w.id = d.endpoint_id"
    " LEFT JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence"
)
_READ_SOME = _READ.format(source="deliveries") + " WHERE d.id IN (SELECT value FROM each(:ids))"
# In one round trip where there are any.
_TAKE_AND_READ = f"WITH taken AS ({_TAKE.format(columns='*')}) {_READ.format(source='taken')}"
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
    room = lanes.room(kind)
    if room <= 0:
        return Claimed()
    full_organizations = lanes.full_organizations(kind)
    hops = _ORGANIZATIONS + len(full_organizations)
    most = _rounded(cursor.share_of(room), lanes.most_of_endpoint(kind))
    rows = await tx.fetch_all(
        _candidates(kind, hops, most),
        after=cursor.after,
        places=cursor.places,
        now=terms.now,
        full_organizations=full_organizations,
        full_endpoints=lanes.full_endpoints(kind) | terms.without,
    )
    looks = _looks(rows)
    chosen = lanes.draft().choose(kind, [one for look in looks for one in look.candidates])
    served = {one.endpoint_id for _, one in chosen}
    was_cut = len(looks) >= _ORGANIZATIONS
    cursor.move(looks, served, was_cut=was_cut, skipped=full_organizations)
    taken = await _take(tx, chosen, terms)
    is_short = most < lanes.most_of_endpoint(kind) and len(chosen) < room
    there_is_more = cursor.is_in_the_middle or is_short or taken.count < len(chosen)
    return Claimed(taken.claims, there_is_more)


def _rounded(share: int, limit: int) -> int:
    """One of three numbers, so that there are few statements."""
    return next((few for few in (2, 4) if share <= few <= limit), limit)


def _looks(rows: Sequence[Row]) -> list[Look]:
    """What was seen of each organization, in the order of the hops."""
    looks: dict[str, Look] = {}
    for row in sorted(rows, key=lambda row: (row["organization_hop"], row["hop"], row["id"] or "")):
        organization_id = row["organization_id"]
        look = looks.get(organization_id)
        if look is None:
            look = looks[organization_id] = Look(organization_id)
        look.endpoints[row["endpoint_id"]] = None
        look.was_cut |= row["hop"] == _ENDPOINTS
        if row["id"] is not None:
            look.candidates.append(Candidate(row["id"], row["endpoint_id"], organization_id))
    return list(looks.values())


async def release(tx: Transaction, deliveries: Iterable[ClaimedDelivery], owner: str) -> None:
    """Not sent after all: anybody may take them."""
    rows = [{"id": one.id, "fence": one.fence, "owner": owner} for one in deliveries]
    await tx.execute_many(_RELEASE, rows)


async def release_all(tx: Transaction, owner: str) -> None:
    """Whatever it still has: a turn may have been cut off between its claim and its end."""
    await tx.execute(_RELEASE_ALL, owner=owner)


async def read_claimed(tx: Transaction, ids: Sequence[str]) -> list[ClaimedDelivery]:
    return [_claimed(row) for row in await tx.fetch_all(_READ_SOME, ids=ids)]


class _Taken(msgspec.Struct, frozen=True):
    count: int
    claims: list[tuple[Lane, ClaimedDelivery]]


async def _take(tx: Transaction, chosen: Sequence[tuple[Lane, Candidate]], terms: Terms) -> _Taken:
    if not chosen:
        return _Taken(0, [])
    lane_of = {one.id: lane for lane, one in chosen}
    rows = await _take_rows(tx, list(lane_of), terms)
    # Its endpoint was closed while the event was written, or the event is gone with its job.
    lost = [row["id"] for row in rows if row["closed_at"] is not None or row["body"] is None]
    if lost:
        await give_up(tx, lost, terms.now)
    good = [row for row in rows if row["closed_at"] is None and row["body"] is not None]
    good.sort(key=lambda row: str(row["id"]))
    return _Taken(len(rows), [(lane_of[row["id"]], _claimed(row)) for row in good])


async def _take_rows(tx: Transaction, ids: list[str], terms: Terms) -> list[Row]:
    how = {"ids": ids, "owner": terms.owner, "lease_ms": terms.lease_ms, "now": terms.now}
    if tx.engine == "postgresql":
        return await tx.fetch_all(_TAKE_AND_READ, **how)
    taken = await tx.fetch_all(_TAKE.format(columns="id"), **how)
    return await tx.fetch_all(_READ_SOME, ids=[row["id"] for row in taken])


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
        # A note that is true for a minute need not be written again.
        is_known_healthy=row["failing_since"] is None
        and (row["last_success_at"] or 0) > now_ms() - HEALTH_MS,
    )
