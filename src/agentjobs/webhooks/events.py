"""Events as receivers see them: five fields, encoded once and stored byte for byte.

An event is written in the transaction of the state change that causes it, with one delivery for
each endpoint that subscribes to it. Reads nothing about jobs itself.
"""

from typing import Annotated

import msgspec

from agentjobs.clock import iso_utc
from agentjobs.identifiers import new_id
from agentjobs.json_fields import Timestamp, Url, doc, known_values
from agentjobs.store.database import Transaction

JOB_QUEUED = "job.queued"
JOB_STARTED = "job.started"
JOB_COMPLETED = "job.completed"
JOB_FAILED = "job.failed"
PR_REVIEW_REQUESTED = "pr.review_requested"
EVENTS = (JOB_QUEUED, JOB_STARTED, JOB_COMPLETED, JOB_FAILED, PR_REVIEW_REQUESTED)
# Sent only on request, to test an endpoint.
PING = "ping"

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


def activity_topic(organization_id: str) -> str:
    """The topic announced when a job changes state or a delivery is attempted."""
    return f"events:{organization_id}"


class StoredEvent(msgspec.Struct, frozen=True):
    id: str
    event: str
    job_id: str
    sequence: int
    created_at: int


async def record_event(
    tx: Transaction,
    event: str,
    *,
    organization_id: str,
    job_id: str,
    sequence: int,
    repo: str,
    pr_url: str | None,
    at_ms: int,
) -> None:
    payload = Payload(event, job_id, repo, pr_url, iso_utc(at_ms))
    stored = await store_event(tx, payload, sequence=sequence, at_ms=at_ms)
    tx.announce(activity_topic(organization_id))
    endpoints = await _subscribed_endpoints(tx, organization_id, event)
    if endpoints:
        await _add_deliveries(tx, stored, organization_id, endpoints)
        tx.announce(TOPIC)


async def store_event(
    tx: Transaction, payload: Payload, *, sequence: int, at_ms: int
) -> StoredEvent:
    """Creates no delivery."""
    stored = StoredEvent(new_id("evt"), payload.event, payload.job_id, sequence, at_ms)
    await tx.execute(
        "INSERT INTO events (job_id, sequence, id, event, body, created_at)"
        " VALUES (:job_id, :sequence, :id, :event, :body, :created_at)",
        job_id=stored.job_id,
        sequence=sequence,
        id=stored.id,
        event=stored.event,
        body=msgspec.json.encode(payload),
        created_at=at_ms,
    )
    return stored


async def _subscribed_endpoints(tx: Transaction, organization_id: str, event: str) -> list[str]:
    rows = await tx.fetch_all(
        "SELECT id, events FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL AND disabled_at IS NULL",
        organization_id=organization_id,
    )
    return [row["id"] for row in rows if event in (decode_filter(row["events"]) or EVENTS)]


async def _add_deliveries(
    tx: Transaction, event: StoredEvent, organization_id: str, endpoints: list[str]
) -> None:
    await tx.execute_many(
        "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
        " event, status, due_at, created_at)"
        " VALUES (:id, :organization_id, :endpoint_id, :job_id, :sequence, :event_id,"
        " :event, 'pending', :now, :now)",
        [
            {
                "id": new_id("dlv"),
                "organization_id": organization_id,
                "endpoint_id": endpoint_id,
                "job_id": event.job_id,
                "sequence": event.sequence,
                "event_id": event.id,
                "event": event.event,
                "now": event.created_at,
            }
            for endpoint_id in endpoints
        ],
    )
