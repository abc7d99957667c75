"""Redelivers: makes settled deliveries pending again, due now, with all retries.

Sends nothing itself; the senders are notified.
"""

from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs.webhooks.endpoints import audit_target, org_flag
from agentjobs.webhooks.events import PING, TEST_SEQUENCE, TOPIC, is_test
from agentjobs.webhooks.log import delivery_not_found
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.problems import Problem

_BATCH = 100
_ACTION = "webhook.redelivered"


class Redelivered(msgspec.Struct, frozen=True):
    """How many deliveries are due again, and how many were skipped because of their endpoint."""

    count: int
    skipped: int


class _FailedFilter(msgspec.Struct, frozen=True):
    """Deliveries that failed permanently since then, whenever their events occurred."""

    organization_id: str
    since_ms: int
    endpoint_id: str | None


@audit.in_transaction
async def redeliver(tx: Transaction, organization: Organization, delivery_id: str) -> None:
    """Redelivers a delivery of any status, unless it is being sent right now."""
    row = await tx.fetch_one(
        "SELECT d.event, d.sequence, e.id, e.url, e.removed_at, e.disabled_at FROM deliveries d"
        " JOIN webhook_endpoints e ON e.id = d.endpoint_id"
        " WHERE d.id = :id AND d.organization_id = :organization_id",
        id=delivery_id,
        organization_id=organization.id,
    )
    if row is None:
        raise delivery_not_found(organization, delivery_id)
    _refuse_unless_open(row, org_flag(organization.name))
    if not await _make_due(tx, [delivery_id]):
        raise Problem(
            "delivery_in_progress",
            f"{delivery_id} is being sent right now. Try again in a few seconds.",
        )
    target = audit_target(row["url"])
    await audit.record(tx, organization.id, _ACTION, target, delivery=delivery_id, count=1)


async def redeliver_failed(
    db: Database, organization_id: str, since_ms: int, endpoint_id: str | None = None
) -> Redelivered:
    """Redelivers all deliveries that failed permanently since then.

    Each batch is a transaction. One audit log entry covers all batches, even after an error.
    """
    filters = _FailedFilter(organization_id, since_ms, endpoint_id)
    target = await _describe_target(db, organization_id, endpoint_id)
    count, after = 0, ""
    try:
        while ids := await _find_ids(db, filters, after):
            count += await _redeliver_batch(db, ids)
            after = ids[-1]
    finally:
        if count:
            details = {"failed_since": iso_utc(since_ms), "count": count}
            await audit.in_transaction(audit.record)(
                db, organization_id, _ACTION, target, **details
            )
    return Redelivered(count, await _count_skipped(db, filters))


async def _describe_target(db: Database, organization_id: str, endpoint_id: str | None) -> str:
    if endpoint_id is None:
        return "all endpoints"
    row = await db.fetch_one(
        "SELECT url FROM webhook_endpoints WHERE id = :id AND organization_id = :organization_id",
        id=endpoint_id,
        organization_id=organization_id,
    )
    return endpoint_id if row is None else audit_target(row["url"])


async def _find_ids(db: Database, filters: _FailedFilter, after: str) -> list[str]:
    """Only deliveries whose endpoint is open, oldest first."""
    sql = f"SELECT id{_from_sql(filters, 'IN')} ORDER BY id LIMIT :limit"
    rows = await db.fetch_all(sql, **_parameters(filters, after), limit=_BATCH)
    return [row["id"] for row in rows]


async def _count_skipped(db: Database, filters: _FailedFilter) -> int:
    rows = await db.fetch_all(
        f"SELECT COUNT(*) AS n{_from_sql(filters, 'NOT IN')}", **_parameters(filters, "")
    )
    count: int = rows[0]["n"]
    return count


def _from_sql(filters: _FailedFilter, operator: str) -> str:
    """`operator`: whether the endpoint must be IN the open ones or NOT IN them."""
    owner = "organization_id" if filters.endpoint_id is None else "endpoint_id"
    return (
        f" FROM deliveries WHERE {owner} = :{owner} AND status || '' = 'failed' AND id > :after"
        # `due_at` of a settled delivery is the time it ended.
        " AND due_at >= :since AND organization_id = :organization_id"
        " AND event <> :ping AND sequence <> :test"
        f" AND endpoint_id || '' {operator} (SELECT e.id FROM webhook_endpoints e"
        "  WHERE e.organization_id = :organization_id"
        "  AND e.removed_at IS NULL AND e.disabled_at IS NULL)"
    )


def _parameters(filters: _FailedFilter, after: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "organization_id": filters.organization_id,
        "since": filters.since_ms,
        "after": after,
        "ping": PING,
        "test": TEST_SEQUENCE,
    }
    if filters.endpoint_id is not None:
        parameters["endpoint_id"] = filters.endpoint_id
    return parameters


@in_transaction
async def _redeliver_batch(tx: Transaction, ids: list[str]) -> int:
    rows = await tx.fetch_all(
        "SELECT d.id FROM deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id"
        " WHERE d.id IN (SELECT value FROM each(:ids)) AND d.status = 'failed'"
        " AND e.removed_at IS NULL AND e.disabled_at IS NULL"
        # Locks in one order, so that concurrent redeliveries cannot deadlock.
        " ORDER BY d.id /*postgresql FOR UPDATE OF d */",
        ids=ids,
    )
    return await _make_due(tx, [row["id"] for row in rows])


async def _make_due(tx: Transaction, ids: list[str]) -> int:
    changed = await tx.execute(
        "UPDATE deliveries SET status = 'pending', failures = 0, due_at = :now"
        " WHERE id IN (SELECT value FROM each(:ids)) AND lease_owner IS NULL",
        now=await tx.clock_ms(),
        ids=ids,
    )
    if changed:
        tx.announce(TOPIC)
    return changed


def _refuse_unless_open(row: Row, org: str) -> None:
    endpoint = f"{row['id']} ({row['url']})"
    if is_test(row["event"], row["sequence"]):
        raise Problem(
            "ping_not_redelivered",
            "A test cannot be redelivered. "
            f"`agentjobs webhooks test {row['id']}{org}` sends a new one.",
        )
    if row["removed_at"] is not None:
        raise Problem(
            "endpoint_removed",
            f"The endpoint {endpoint} was removed. "
            f"`agentjobs webhooks add URL{org}` adds a new one for future events.",
        )
    if row["disabled_at"] is not None:
        raise Problem(
            "endpoint_disabled",
            f"The endpoint {endpoint} is disabled. "
            f"Run `agentjobs webhooks enable {row['id']}{org}` first.",
        )
