"""The `deliveries` table as a queue: claims under a lease, in order per job, fair to endpoints.

A first attempt is claimed only once every earlier event of its job has had its first attempt at
the same endpoint. Retries neither wait for other deliveries nor hold them back.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.webhooks.concurrency import (
    AttemptKind,
    Candidate,
    ScanCursor,
    SlotPool,
    Slots,
)
from agentjobs.webhooks.model import ClaimedDelivery
from agentjobs.webhooks.signing import sealed_secrets
from agentjobs_runtime.clock import now_ms

# How often a success is written to a healthy endpoint; one that ends failures is written at once.
HEALTH_INTERVAL_MS = 60_000
# Bounds one statement, because SQLite's event loop waits for it.
FAIL_BATCH = 200

# Bounds what one claim reads, for the same reason.
_MAX_ENDPOINTS = 128

# A skip scan through the index of waiting deliveries: endpoint by endpoint, with the first few
# deliveries of each, so that a long queue does not slow down the others. Lap 1 goes from the cursor
# to the last endpoint, lap 2 from the first to the cursor. Other endpoints of a saturated
# organization are skipped. SQLite has no LATERAL but accepts a correlated list.
_CANDIDATES = """
WITH RECURSIVE endpoints(lap, step, organization_id, id) AS (
  SELECT p.lap, 1, (SELECT d.organization_id {next}), (SELECT d.endpoint_id {next})
  FROM (SELECT 1 AS lap, CAST(:after_organization AS TEXT) AS organization_id,
      CAST(:after_endpoint AS TEXT) AS id UNION ALL SELECT 2, '', '') p
  UNION ALL
  SELECT p.lap, p.step + 1, (SELECT d.organization_id {next}), (SELECT d.endpoint_id {next})
  FROM endpoints p WHERE p.id IS NOT NULL AND p.step < {max_endpoints} AND {is_in_lap}
),
scanned AS (SELECT * FROM endpoints p WHERE p.id IS NOT NULL AND {is_in_lap})
SELECT w.lap, w.step, w.organization_id, w.id AS endpoint_id, ready.id
FROM (SELECT * FROM scanned WHERE id NOT IN (SELECT value FROM each(:excluded_endpoints))
  AND organization_id NOT IN (SELECT value FROM each(:saturated_organizations))) w
/*postgresql CROSS JOIN LATERAL ({first_ready}) ready */
/*sqlite CROSS JOIN json_each((SELECT json_group_array(few.id) FROM ({first_ready}) few)) each
  CROSS JOIN deliveries ready ON ready.id = each.value */
UNION ALL
SELECT lap, step, organization_id, id, NULL FROM scanned
"""
# The literals sort after every value of their column, in every collation. With all columns of the
# index in the comparison, SQLite does not read the queue of the endpoint that it leaves.
_NEXT = (
    "FROM deliveries d WHERE {waiting} AND (d.organization_id, d.endpoint_id, {order}) >"
    " (p.organization_id, CASE WHEN p.organization_id IN"
    f" (SELECT value FROM each(:saturated_organizations)) THEN 'whk_{'z' * 26}' ELSE p.id END,"
    " {max_order}) ORDER BY d.organization_id, d.endpoint_id LIMIT 1"
)
_IS_IN_LAP = (
    "(p.lap = 1 OR (p.organization_id, p.id) <="
    " (CAST(:after_organization AS TEXT), CAST(:after_endpoint AS TEXT)))"
)
# Excluded endpoints are left out above: none of their deliveries is read.
_FIRST_READY = """
SELECT d.id FROM deliveries d WHERE {waiting} AND d.organization_id = w.organization_id
AND d.endpoint_id = w.id AND {condition} ORDER BY {order} LIMIT {limit}
"""
_WAITING = "d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts {attempts}"
# The empty text keeps PostgreSQL from the index of the endpoint's log: a job has only few events.
_IN_ORDER = (
    "NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.job_id = d.job_id"
    " AND e.endpoint_id || '' = d.endpoint_id AND e.sequence < d.sequence"
    " AND e.status = 'pending' AND e.attempts = 0)"
)


class _ReadyQuery(NamedTuple):
    attempts: str
    condition: str
    order: str
    max_order: str


_READY: dict[AttemptKind, _ReadyQuery] = {
    "first": _ReadyQuery("= 0", _IN_ORDER, "d.id", f"'dlv_{'z' * 26}'"),
    "retry": _ReadyQuery("> 0", "d.due_at <= :now", "d.due_at", str(2**63 - 1)),
}


@cache
def _candidates_sql(kind: AttemptKind, limit: int) -> str:
    """Numbers are part of the text: as parameters they would make PostgreSQL plan every call."""
    ready = _READY[kind]
    waiting = _WAITING.format(attempts=ready.attempts)
    first_ready = _FIRST_READY.format(
        waiting=waiting, condition=ready.condition, order=ready.order, limit=limit
    )
    return _CANDIDATES.format(
        next=_NEXT.format(waiting=waiting, order=ready.order, max_order=ready.max_order),
        is_in_lap=_IS_IN_LAP,
        first_ready=first_ready,
        max_endpoints=_MAX_ENDPOINTS,
    )


# Whether deliveries of any age wait, by the first entries of two indexes.
_WAITING_KINDS = "SELECT " + ", ".join(
    f"EXISTS (SELECT 1 FROM deliveries d WHERE {_WAITING}) AS {{kind}}".format(
        attempts=ready.attempts, kind=kind
    )
    for kind, ready in _READY.items()
)
# Locks exactly the rows it leases; rows that another sender has locked are skipped.
_LEASE = (
    f"UPDATE deliveries SET lease_owner = :owner, lease_expires_at = {DATABASE_NOW} + :lease_ms,"
    " fence = fence + 1 WHERE id IN (SELECT id FROM deliveries"
    "  WHERE id IN (SELECT value FROM each(:ids)) AND status = 'pending' AND lease_owner IS NULL"
    "  ORDER BY id /*postgresql FOR UPDATE SKIP LOCKED */) RETURNING {columns}"
)
_LOAD = (
    "SELECT d.id, d.fence, d.organization_id, d.endpoint_id, d.event_id, d.event, d.job_id,"
    " d.sequence, d.attempts, d.failures, e.body, w.url, w.sealed, w.pending_sealed, w.promote_at,"
    " COALESCE(w.disabled_at, w.removed_at) AS closed_at, w.failing_since, w.last_success_at,"
    " j.traceparent"
    " FROM {source} d LEFT JOIN webhook_endpoints w ON w.id = d.endpoint_id"
    " LEFT JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence"
    " LEFT JOIN jobs j ON j.id = d.job_id"
)
_LOAD_BY_ID = _LOAD.format(source="deliveries") + " WHERE d.id IN (SELECT value FROM each(:ids))"
# One round trip on PostgreSQL.
_LEASE_AND_LOAD = f"WITH leased AS ({_LEASE.format(columns='*')}) {_LOAD.format(source='leased')}"
_RELEASE = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL"
    " WHERE id = :id AND fence = :fence AND lease_owner = :owner"
)
_RELEASE_ALL = (
    "UPDATE deliveries SET lease_owner = NULL, lease_expires_at = NULL WHERE lease_owner = :owner"
)
_FAIL = (
    "UPDATE deliveries SET status = 'failed', due_at = :now, lease_owner = NULL,"
    " lease_expires_at = NULL WHERE id IN ({ids})"
)
# Uses the index of the endpoint's log. Locked rows are being claimed, or failed by another process.
_UNCLAIMED = (
    "SELECT d.id FROM {source} WHERE {condition} AND d.status || '' = 'pending'"
    " AND d.lease_owner IS NULL LIMIT :batch /*postgresql FOR UPDATE OF d SKIP LOCKED */"
)
_FAIL_OF_ENDPOINT = _FAIL.format(
    ids=_UNCLAIMED.format(source="deliveries d", condition="d.endpoint_id = :endpoint_id")
)
_FAIL_OF_CLOSED = _FAIL.format(
    ids=_UNCLAIMED.format(
        # SQLite keeps the order of a cross join, so it never starts with the long table.
        source="webhook_endpoints w CROSS JOIN deliveries d",
        condition="COALESCE(w.disabled_at, w.removed_at) IS NOT NULL AND d.endpoint_id = w.id",
    )
)


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    owner: str
    lease_ms: int
    now: int
    excluded_endpoints: frozenset[str] = frozenset()


class ClaimBatch(msgspec.Struct, frozen=True):
    deliveries: list[tuple[SlotPool, ClaimedDelivery]] = []
    # Not everything that waits was scanned, or other senders took some of the candidates.
    has_more: bool = False


async def waiting_kinds(db: Database) -> list[AttemptKind]:
    """What waits for a sender, whether or not it is due."""
    row = await db.fetch_one(_WAITING_KINDS)
    return [kind for kind in _READY if row is not None and row[kind]]


async def claim(
    tx: Transaction, kind: AttemptKind, slots: Slots, terms: LeaseTerms, cursor: ScanCursor
) -> ClaimBatch:
    """Claims as many deliveries as there are free slots, from a limited number of endpoints."""
    free = slots.count_free(kind)
    if free <= 0:
        return ClaimBatch()
    max_per_endpoint = slots.max_per_endpoint(kind)
    limit = _round_limit(cursor.share_per_endpoint(free), max_per_endpoint)
    rows = await _scan(tx, kind, slots, terms, cursor, limit)
    candidates = (_to_candidate(row) for row in rows if row["id"] is not None)
    selected = slots.copy().select(kind, candidates)
    is_truncated = any(row["step"] == _MAX_ENDPOINTS for row in rows)
    scanned = dict.fromkeys((row["organization_id"], row["endpoint_id"]) for row in rows)
    served = {candidate.endpoint_id for _, candidate in selected}
    cursor.advance(list(scanned), served, is_truncated=is_truncated)
    leased = await _lease(tx, [candidate.id for _, candidate in selected], terms)
    is_limited = limit < max_per_endpoint and len(selected) < free
    has_more = is_truncated or is_limited or leased.count < len(selected)
    pool_of = {candidate.id: pool for pool, candidate in selected}
    return ClaimBatch(
        [(pool_of[delivery.id], delivery) for delivery in leased.deliveries], has_more
    )


async def release(tx: Transaction, deliveries: Iterable[ClaimedDelivery], owner: str) -> None:
    """Releases deliveries that were not sent: any sender may claim them again."""
    rows = [{"id": delivery.id, "fence": delivery.fence, "owner": owner} for delivery in deliveries]
    await tx.execute_many(_RELEASE, rows)


async def release_all(tx: Transaction, owner: str) -> None:
    """Includes what a cancelled claim leased without returning it."""
    await tx.execute(_RELEASE_ALL, owner=owner)


async def load_claimed(tx: Transaction, ids: Sequence[str]) -> list[ClaimedDelivery]:
    return [_to_claimed(row) for row in await _load(tx, ids)]


async def fail_claimed(tx: Transaction, ids: Sequence[str]) -> None:
    """Only for deliveries that the caller has claimed."""
    now = await tx.clock_ms()
    await tx.execute(_FAIL.format(ids="SELECT value FROM each(:ids)"), ids=ids, now=now)


async def fail_waiting(tx: Transaction, endpoint_id: str) -> None:
    """One batch of an endpoint's deliveries; those being sent are left to their sender, and the
    others to the maintenance of senders."""
    now = await tx.clock_ms()
    await tx.execute(_FAIL_OF_ENDPOINT, endpoint_id=endpoint_id, batch=FAIL_BATCH, now=now)


async def fail_waiting_of_closed(tx: Transaction) -> int:
    """One batch for all closed endpoints: an event may commit while its endpoint is closed."""
    return await tx.execute(_FAIL_OF_CLOSED, batch=FAIL_BATCH, now=await tx.clock_ms())


def _round_limit(share: int, limit: int) -> int:
    """One of three numbers, so that there are few distinct statements."""
    return next((few for few in (2, 4) if share <= few <= limit), limit)


async def _scan(
    tx: Transaction,
    kind: AttemptKind,
    slots: Slots,
    terms: LeaseTerms,
    cursor: ScanCursor,
    limit: int,
) -> list[Row]:
    """Rows of waiting endpoints, and of at most `limit` ready deliveries of each."""
    after_organization, after_endpoint = cursor.after
    rows = await tx.fetch_all(
        _candidates_sql(kind, limit),
        after_organization=after_organization,
        after_endpoint=after_endpoint,
        now=terms.now,
        saturated_organizations=slots.saturated_organizations(kind),
        excluded_endpoints=slots.saturated_endpoints(kind) | terms.excluded_endpoints,
    )
    return sorted(rows, key=lambda row: (row["lap"], row["step"], row["id"] or ""))


def _to_candidate(row: Row) -> Candidate:
    return Candidate(row["id"], row["endpoint_id"], row["organization_id"])


class _Leased(msgspec.Struct, frozen=True):
    # Also counts leased deliveries that could not be sent.
    count: int
    deliveries: list[ClaimedDelivery]


async def _lease(tx: Transaction, ids: list[str], terms: LeaseTerms) -> _Leased:
    if not ids:
        return _Leased(0, [])
    rows = await _lease_rows(tx, ids, terms)
    # The endpoint was closed while the event was written, or the event was deleted with its job.
    unsendable = {row["id"] for row in rows if row["closed_at"] is not None or row["body"] is None}
    if unsendable:
        await fail_claimed(tx, list(unsendable))
    sendable = [row for row in rows if row["id"] not in unsendable]
    sendable.sort(key=lambda row: str(row["id"]))
    return _Leased(len(rows), [_to_claimed(row) for row in sendable])


async def _lease_rows(tx: Transaction, ids: list[str], terms: LeaseTerms) -> list[Row]:
    values = {"ids": ids, "owner": terms.owner, "lease_ms": terms.lease_ms, "now": terms.now}
    if tx.engine == "postgresql":
        return await tx.fetch_all(_LEASE_AND_LOAD, **values)
    leased = await tx.fetch_all(_LEASE.format(columns="id"), **values)
    return await _load(tx, [row["id"] for row in leased])


async def _load(tx: Transaction, ids: Sequence[str]) -> list[Row]:
    return await tx.fetch_all(_LOAD_BY_ID, ids=ids)


def _to_claimed(row: Row) -> ClaimedDelivery:
    has_recent_success = (row["last_success_at"] or 0) > now_ms() - HEALTH_INTERVAL_MS
    return to_struct(
        row,
        ClaimedDelivery,
        secrets=sealed_secrets(row),
        body=bytes(row["body"]),
        is_known_healthy=row["failing_since"] is None and has_recent_success,
    )
