"""The delivery log: what was sent where and when, and the responses. Read-only.

Pages are ordered by identifier, newest first. Each status is a range of an index, and a page merges
these ranges, so its cost depends neither on the length of the log nor on its statuses.
"""

from collections.abc import Iterable, Mapping

import msgspec

from agentjobs.organizations.organizations import Organization
from agentjobs.store.database import Database, Row, to_struct
from agentjobs.webhooks.endpoints import find_endpoint, org_flag
from agentjobs.webhooks.events import is_test
from agentjobs.webhooks.model import Attempt, DeliveryStatus, Headers
from agentjobs_runtime.identifiers import first_id_at
from agentjobs_runtime.problems import Problem

STATUSES: tuple[DeliveryStatus, ...] = ("pending", "delivered", "failed")

# Sorts after every identifier, in every collation.
_NO_BOUND = "dlv_" + "z" * 26
_decode_headers = msgspec.json.Decoder(Headers).decode

# Compares and orders by both columns, because PostgreSQL may otherwise scan the whole log by
# identifier. `since` is applied afterwards: as a scan condition it would not stop the scan.
_RANGE = (
    "SELECT id FROM (SELECT id FROM deliveries WHERE {owner} = :{owner}"
    " /*postgresql AND (status || '', id) < ('{status}', :before) AND status || '' >= '{status}'"
    "  ORDER BY status || '' DESC, id DESC */"
    " /*sqlite AND status || '' = '{status}' AND id < :before ORDER BY id DESC */"
    " LIMIT :limit) AS {status}_rows WHERE id >= :since"
)
_RANGES: Mapping[str, Mapping[DeliveryStatus, str]] = {
    owner: {status: _RANGE.format(owner=owner, status=status) for status in STATUSES}
    for owner in ("organization_id", "endpoint_id")
}
_COLUMNS = (
    "d.id, d.event, d.event_id, d.sequence, d.job_id, d.endpoint_id, d.status, d.due_at,"
    " d.created_at, e.url"
)
_WITH_ENDPOINT = "JOIN webhook_endpoints e ON e.id = d.endpoint_id"
_PAGE = (
    f"SELECT {_COLUMNS} FROM page JOIN deliveries d ON d.id = page.id {_WITH_ENDPOINT}"
    " WHERE d.organization_id = :organization_id ORDER BY d.id DESC"
)
_SUMMARY = ("at", "status_code", "error_class", "error", "duration_ms", "address")


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: DeliveryStatus | None = None
    job_id: str | None = None
    endpoint_id: str | None = None
    since_ms: int | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one endpoint; `due_at` is only meaningful while it is pending.

    Attempts are the oldest first. In lists they have neither headers nor a body.
    """

    id: str
    event: str
    event_id: str
    sequence: int
    job_id: str
    endpoint_id: str
    url: str
    status: DeliveryStatus
    due_at: int
    created_at: int
    attempts: tuple[Attempt, ...] = ()

    @property
    def is_test(self) -> bool:
        return is_test(self.event, self.sequence)

    @property
    def next_attempt_at(self) -> int | None:
        return self.due_at if self.status == "pending" else None


class DeliveryPage(msgspec.Struct, frozen=True):
    deliveries: list[Delivery]
    has_more: bool


class DeliveryDetail(msgspec.Struct, frozen=True):
    delivery: Delivery
    body: bytes


async def list_deliveries(
    db: Database,
    organization_id: str,
    filters: DeliveryFilter,
    *,
    limit: int = 100,
    before: str | None = None,
) -> DeliveryPage:
    """Newest first; `before` is the last identifier of the previous page."""
    rows = await db.fetch_all(
        _page_sql(filters),
        organization_id=organization_id,
        endpoint_id=filters.endpoint_id,
        job_id=filters.job_id,
        status=filters.status,
        before=_NO_BOUND if before is None else before,
        since="" if filters.since_ms is None else first_id_at("dlv", filters.since_ms),
        # One more than the page, to know whether there is another page.
        limit=limit + 1,
    )
    page = rows[:limit]
    attempts = await _load_attempts(db, [row["id"] for row in page])
    return DeliveryPage(
        [_to_delivery(row, attempts.get(row["id"], [])) for row in page], len(rows) > limit
    )


async def get_delivery(
    db: Database, organization: Organization, delivery_id: str
) -> DeliveryDetail:
    row = await db.fetch_one(
        f"SELECT {_COLUMNS}, v.body FROM deliveries d {_WITH_ENDPOINT}"
        " JOIN events v ON v.job_id = d.job_id AND v.sequence = d.sequence"
        " WHERE d.id = :id AND d.organization_id = :organization_id",
        id=delivery_id,
        organization_id=organization.id,
    )
    if row is None:
        raise delivery_not_found(organization, delivery_id)
    rows = await db.fetch_all(
        "SELECT * FROM delivery_attempts WHERE delivery_id = :id ORDER BY at, id", id=delivery_id
    )
    return DeliveryDetail(_to_delivery(row, map(_to_attempt, rows)), bytes(row["body"]))


async def find_logged_endpoint(db: Database, organization: Organization, id_or_url: str) -> str:
    """The identifier of an endpoint, including removed ones; of these, the latest."""
    try:
        return (await find_endpoint(db, organization.name, id_or_url)).id
    except Problem as problem:
        if problem.code != "endpoint_not_found":
            raise
        removed = await _find_removed(db, organization.id, id_or_url)
        if removed is None:
            raise
        return removed


def delivery_not_found(organization: Organization, delivery_id: str) -> Problem:
    return Problem(
        "delivery_not_found",
        f"The organization {organization.name!r} has no delivery {delivery_id!r}. "
        f"`agentjobs webhooks deliveries{org_flag(organization.name)}` lists its deliveries.",
    )


async def _find_removed(db: Database, organization_id: str, id_or_url: str) -> str | None:
    row = await db.fetch_one(
        "SELECT MAX(id) AS id FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND (id = :id_or_url OR url = :id_or_url) AND removed_at IS NOT NULL",
        organization_id=organization_id,
        id_or_url=id_or_url,
    )
    return None if row is None else row["id"]


def _page_sql(filters: DeliveryFilter) -> str:
    if filters.job_id is not None:
        # A job has few deliveries; without MATERIALIZED PostgreSQL may scan the whole log.
        conditions = {"endpoint_id": filters.endpoint_id, "status": filters.status}
        optional = "".join(f" AND {name} = :{name}" for name, value in conditions.items() if value)
        return (
            "WITH matches AS MATERIALIZED (SELECT id FROM deliveries"
            f" WHERE job_id = :job_id AND id < :before AND id >= :since{optional}),"
            f" page AS (SELECT id FROM matches ORDER BY id DESC LIMIT :limit) {_PAGE}"
        )
    ranges = _RANGES["organization_id" if filters.endpoint_id is None else "endpoint_id"]
    statuses = STATUSES if filters.status is None else (filters.status,)
    merged = " UNION ALL ".join(ranges[status] for status in statuses)
    return (
        f"WITH page AS MATERIALIZED (SELECT id FROM ({merged}) AS merged"
        f" ORDER BY id DESC LIMIT :limit) {_PAGE}"
    )


async def _load_attempts(db: Database, ids: list[str]) -> dict[str, list[Attempt]]:
    rows = await db.fetch_all(
        f"SELECT delivery_id, {', '.join(_SUMMARY)} FROM delivery_attempts"
        " WHERE delivery_id IN (SELECT value FROM each(:ids)) ORDER BY delivery_id, at, id",
        ids=ids,
    )
    attempts: dict[str, list[Attempt]] = {}
    for row in rows:
        summary = Attempt(**{name: row[name] for name in _SUMMARY})
        attempts.setdefault(row["delivery_id"], []).append(summary)
    return attempts


def _to_delivery(row: Row, attempts: Iterable[Attempt]) -> Delivery:
    return to_struct(row, Delivery, attempts=tuple(attempts))


def _to_attempt(row: Row) -> Attempt:
    return to_struct(
        row,
        Attempt,
        request_headers=_decode_headers(row["request_headers"]),
        response_headers=_decode_headers(row["response_headers"]),
        response_body=bytes(row["response_body"]),
    )
