"""Events as receivers see them: five fields, encoded once and stored byte for byte.

An event is written in the transaction of the state change that causes it, with one delivery for
each endpoint that subscribes to it. Reads nothing about jobs itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from agentjobs.store.batch_statement import Table, insert_rows
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.identifiers import new_id, new_id_start
from agentjobs_runtime.json_fields import Timestamp, Url, doc, known_values

JOB_QUEUED = "job.queued"
JOB_STARTED = "job.started"
JOB_COMPLETED = "job.completed"
JOB_FAILED = "job.failed"
PR_REVIEW_REQUESTED = "pr.review_requested"
EVENTS = (JOB_QUEUED, JOB_STARTED, JOB_COMPLETED, JOB_FAILED, PR_REVIEW_REQUESTED)
# Sent only on request, to test an endpoint.
PING = "ping"
# Events of jobs are numbered from 1.
TEST_SEQUENCE = 0

# Announced when deliveries are waiting.
TOPIC = "deliveries"

# The `events` column of an endpoint; an empty list means all events.
decode_filter = msgspec.json.Decoder(tuple[str, ...]).decode


class Payload(msgspec.Struct, frozen=True):
    """The body of a delivery: exactly these fields, in this order."""

    event: Annotated[str, known_values("Event type.", EVENTS)]
    job_id: Annotated[str, doc("Job identifier.")]
    repo: Annotated[str, doc("Repository full name.")]
    pr_url: Annotated[Url | None, doc("Pull request URL.")]
    timestamp: Annotated[Timestamp, doc("When the event occurred.")]


def is_test(event: str, sequence: int) -> bool:
    """Whether it was sent on request. Earlier versions numbered pings 1."""
    return event == PING or sequence == TEST_SEQUENCE


def activity_topic(organization_id: str) -> str:
    """The topic announced when a job changes state or a delivery is attempted."""
    return f"events:{organization_id}"


class JobEvent(msgspec.Struct, frozen=True):
    """A state change of a job, to be stored and delivered; a test belongs to no organization."""

    event: str
    organization_id: str
    job_id: str
    sequence: int
    repo: str
    pr_url: str | None
    at_ms: int

    @property
    def payload(self) -> Payload:
        return Payload(self.event, self.job_id, self.repo, self.pr_url, iso_utc(self.at_ms))


_EVENTS = Table(
    "events",
    {
        "job_id": "text",
        "sequence": "bigint",
        "id": "text",
        "event": "text",
        "body": "bytea",
        "created_at": "bigint",
        "organization_id": "text",
    },
)
_DELIVERIES = Table(
    "deliveries",
    {
        "id": "text",
        "organization_id": "text",
        "endpoint_id": "text",
        "job_id": "text",
        "sequence": "bigint",
        "event_id": "text",
        "event": "text",
        "status": "text",
        "due_at": "bigint",
        "created_at": "bigint",
    },
)
_ACTIVE = "removed_at IS NULL AND disabled_at IS NULL"
_ENDPOINTS = (
    "SELECT organization_id, id, events FROM webhook_endpoints"
    f" WHERE organization_id IN (SELECT value FROM each(:organizations)) AND {_ACTIVE}"
)
# As `Payload` is encoded.
_BODY = (
    """'{"event":"' || event || '","job_id":"' || job_id || '","repo":' || to_json(repo)"""
    """ || ',"pr_url":' || COALESCE(to_json(pr_url), 'null')"""
    """ || ',"timestamp":"' || timestamp || '"}'"""
)
# Two digits: an organization has at most 100 endpoints.
_NUMBER = "lpad(to_hex(row_number() OVER (PARTITION BY e.id ORDER BY w.id)), 2, '0')"
# On PostgreSQL: what stores the rows of a table `emitted` with all columns of an event, `repo`,
# `pr_url` and `timestamp`, and their deliveries. Identifiers of the events come from
# `new_emitted_id`.
STORE_EMITTED = (
    f"stored AS (INSERT INTO events ({', '.join(_EVENTS.types)})"
    " SELECT job_id, sequence, id, event,"
    f" convert_to({_BODY}, 'UTF8'), created_at, organization_id FROM emitted),"
    f" delivered AS (INSERT INTO deliveries ({', '.join(_DELIVERIES.types)})"
    f" SELECT 'dlv_' || substr(e.id, 5, 24) || {_NUMBER}, e.organization_id, w.id,"
    " e.job_id, e.sequence, e.id, e.event, 'pending', e.created_at, e.created_at"
    f" FROM emitted e JOIN webhook_endpoints w ON w.organization_id = e.organization_id"
    f" WHERE {_ACTIVE} AND (w.events = '[]'"
    " OR e.event IN (SELECT json_array_elements_text(CAST(w.events AS json)))) RETURNING 1)"
)
# For a statement that reads an organization `o`; None if it has no active endpoints.
ENDPOINTS_OF_ORGANIZATION = (
    "(SELECT /*sqlite json_group_array(json_array(id, events)) */"
    "/*postgresql json_agg(json_build_array(id, events)) */"
    f" FROM webhook_endpoints WHERE organization_id = o.id AND {_ACTIVE})"
)

# By organization: the active endpoints, and the events that they subscribe to.
Endpoints = Mapping[str, Sequence[tuple[str, Sequence[str]]]]

_decode_endpoints = msgspec.json.Decoder(list[tuple[str, str]]).decode


def decode_endpoints(text: str | None) -> list[tuple[str, Sequence[str]]]:
    """The value of ENDPOINTS_OF_ORGANIZATION."""
    pairs = _decode_endpoints(text) if text else ()
    return [(endpoint_id, _subscribed(events)) for endpoint_id, events in pairs]


def _subscribed(events: str) -> Sequence[str]:
    return decode_filter(events) or EVENTS


def new_emitted_id() -> str:
    """Ends with a number, which is that of a delivery in the identifiers of deliveries."""
    return new_id_start("evt") + "00"


async def record_events(tx: Transaction, events: Sequence[JobEvent]) -> None:
    if not events:
        return
    endpoints = await read_endpoints(tx, {event.organization_id for event in events})
    await insert_rows(tx, rows_to_insert(tx, events, endpoints))


def rows_to_insert(
    tx: Transaction, events: Sequence[JobEvent], endpoints: Endpoints
) -> dict[Table, list[dict[str, Any]]]:
    """The events and their deliveries, for a caller that inserts other rows with them."""
    rows = [_event_row(event) for event in events]
    return {_EVENTS: rows, _DELIVERIES: _announce(tx, rows, endpoints)}


def announce_stored(
    tx: Transaction, organizations: Iterable[str], *, with_deliveries: bool
) -> None:
    tx.announce(*map(activity_topic, organizations), *([TOPIC] if with_deliveries else ()))


async def read_endpoints(tx: Transaction, organizations: Iterable[str]) -> Endpoints:
    endpoints: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for row in await tx.fetch_all(_ENDPOINTS, organizations=organizations):
        endpoint = row["id"], _subscribed(row["events"])
        endpoints.setdefault(row["organization_id"], []).append(endpoint)
    return endpoints


def _announce(
    tx: Transaction, events: Sequence[Mapping[str, Any]], endpoints: Endpoints
) -> list[dict[str, Any]]:
    """Announce the events and return their deliveries."""
    tx.announce(*(activity_topic(event["organization_id"]) for event in events))
    deliveries = [
        _delivery(event, endpoint_id)
        for event in events
        for endpoint_id, subscribed in endpoints.get(event["organization_id"], ())
        if event["event"] in subscribed
    ]
    if deliveries:
        tx.announce(TOPIC)
    return deliveries


async def store_test(tx: Transaction, event: JobEvent) -> str:
    """Returns its identifier. It has no delivery, and is in the listing of no organization."""
    row = _event_row(event)
    await insert_rows(tx, {_EVENTS: [row]})
    return str(row["id"])


def _event_row(event: JobEvent) -> dict[str, Any]:
    return {
        "job_id": event.job_id,
        "sequence": event.sequence,
        "id": new_id("evt"),
        "event": event.event,
        "body": msgspec.json.encode(event.payload),
        "created_at": event.at_ms,
        "organization_id": event.organization_id or None,
    }


def _delivery(event: Mapping[str, Any], endpoint_id: str) -> dict[str, Any]:
    return {
        "id": new_id("dlv"),
        "organization_id": event["organization_id"],
        "endpoint_id": endpoint_id,
        "job_id": event["job_id"],
        "sequence": event["sequence"],
        "event_id": event["id"],
        "event": event["event"],
        "status": "pending",
        "due_at": event["created_at"],
        "created_at": event["created_at"],
    }
