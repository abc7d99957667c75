"""Asks for deliveries to be made again: the same row, due now, with the whole schedule before it.

Sends nothing itself: whoever sends is told.
"""

from typing import Any

import msgspec

from agentjobs.clock import iso_utc
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import Organization
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks.endpoints import audit_target, org_flag
from agentjobs.webhooks.events import PING, TOPIC
from agentjobs.webhooks.log import delivery_not_found

_BATCH = 100
_ACTION = "webhook.redelivered"


class Redelivered(msgspec.Struct, frozen=True):
    """How many are due again, and how many were left because their endpoint takes none.

    `left`: how many more there are, where no more than some were asked for.
    """

    count: int
    skipped: int
    left: int = 0


class _Failed(msgspec.Struct, frozen=True):
    """Which deliveries: all that failed for good since then, whenever their events happened."""

    organization_id: str
    since_ms: int
    endpoint_id: str | None


async def redeliver(db: Database, organization: Organization, delivery_id: str) -> None:
    """Whatever became of it, unless it is being sent at this moment."""
    entry = audit.entry(_ACTION, delivery_id, delivery=delivery_id, count=1)
    await db.transact(_redeliver_one, organization, delivery_id, entry)


async def redeliver_failed(
    db: Database,
    organization_id: str,
    since_ms: int,
    endpoint_id: str | None = None,
    *,
    most: int | None = None,
) -> Redelivered:
    """All that failed for good since then, or the oldest `most` of them.

    In batches, each a transaction; then one entry in the audit log for all of them, also when
    something comes in between.
    """
    wanted = _Failed(organization_id, since_ms, endpoint_id)
    target = await _target(db, organization_id, endpoint_id)
    entry = audit.entry(_ACTION, target, failed_since=iso_utc(since_ms))
    count, after = 0, ""
    try:
        while ids := await _ids(db, wanted, after, _room(most, count)):
            count += await db.transact(_redeliver_batch, ids)
            after = ids[-1]
    finally:
        if count:
            await db.transact(_tell, organization_id, entry, count)
    left = 0 if _room(most, count) else await _number(db, wanted, after, "IN")
    return Redelivered(count, await _number(db, wanted, "", "NOT IN"), left)


def _room(most: int | None, count: int) -> int:
    """How many the next batch may have."""
    return _BATCH if most is None else min(_BATCH, most - count)


async def _target(db: Database, organization_id: str, endpoint_id: str | None) -> str:
    if endpoint_id is None:
        return "all endpoints"
    row = await db.fetch_one(
        "SELECT url FROM webhook_endpoints WHERE id = :id AND organization_id = :organization_id",
        id=endpoint_id,
        organization_id=organization_id,
    )
    return endpoint_id if row is None else audit_target(row["url"])


async def _ids(db: Database, wanted: _Failed, after: str, most: int) -> list[str]:
    """Those whose endpoint takes deliveries, the oldest first."""
    sql = f"SELECT id{_from(wanted, 'IN')} ORDER BY id LIMIT :most"
    rows = await db.fetch_all(sql, **_parameters(wanted, after), most=most)
    return [row["id"] for row in rows]


async def _number(db: Database, wanted: _Failed, after: str, among: str) -> int:
    rows = await db.fetch_all(
        f"SELECT COUNT(*) AS n{_from(wanted, among)}", **_parameters(wanted, after)
    )
    number: int = rows[0]["n"]
    return number


def _from(wanted: _Failed, among: str) -> str:
    """`among`: whether the endpoints are IN those that take deliveries, or NOT IN them."""
    owner = "organization_id" if wanted.endpoint_id is None else "endpoint_id"
    return (
        f" FROM deliveries WHERE {owner} = :{owner} AND status || '' = 'failed' AND id > :after"
        # What is settled is due no more: the time is that of its end.
        " AND due_at >= :since AND organization_id = :organization_id AND event <> :ping"
        f" AND endpoint_id || '' {among} (SELECT e.id FROM webhook_endpoints e"
        "  WHERE e.organization_id = :organization_id"
        "  AND e.removed_at IS NULL AND e.disabled_at IS NULL)"
    )


def _parameters(wanted: _Failed, after: str) -> dict[str, Any]:
    given = {
        "organization_id": wanted.organization_id,
        "since": wanted.since_ms,
        "after": after,
        "ping": PING,
    }
    return given if wanted.endpoint_id is None else {**given, "endpoint_id": wanted.endpoint_id}


async def _redeliver_one(
    tx: Transaction, organization: Organization, delivery_id: str, entry: audit.Entry
) -> None:
    row = await tx.fetch_one(
        "SELECT d.event, e.id, e.url, e.removed_at, e.disabled_at FROM deliveries d"
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
            f"{delivery_id} is being sent at this moment; look at it again in a few seconds.",
        )
    target = audit_target(row["url"])
    await audit.write(tx, organization.id, msgspec.structs.replace(entry, target=target))


async def _redeliver_batch(tx: Transaction, ids: list[str]) -> int:
    rows = await tx.fetch_all(
        "SELECT d.id FROM deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id"
        " WHERE d.id IN (SELECT value FROM each(:ids)) AND d.status = 'failed'"
        " AND e.removed_at IS NULL AND e.disabled_at IS NULL"
        # In one order, so that two who do this at once do not wait for each other.
        " ORDER BY d.id /*postgresql FOR UPDATE OF d */",
        ids=ids,
    )
    return await _make_due(tx, [row["id"] for row in rows])


async def _tell(tx: Transaction, organization_id: str, entry: audit.Entry, count: int) -> None:
    details = {**entry.details, "count": count}
    await audit.write(tx, organization_id, msgspec.structs.replace(entry, details=details))


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
    if row["event"] == PING:
        raise Problem(
            "ping_not_redelivered",
            "A ping is not sent again; "
            f"`agentjobs webhooks test {row['id']}{org}` sends a new one.",
        )
    if row["removed_at"] is not None:
        raise Problem(
            "endpoint_removed",
            f"The endpoint {endpoint} was removed, so nothing more is sent to it; "
            f"`agentjobs webhooks add URL{org}` makes a new one, for what happens from then on.",
        )
    if row["disabled_at"] is not None:
        raise Problem(
            "endpoint_disabled",
            f"The endpoint {endpoint} is disabled; "
            f"`agentjobs webhooks enable {row['id']}{org}` first, then ask again.",
        )
