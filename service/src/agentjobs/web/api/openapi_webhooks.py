"""The webhooks of the OpenAPI document: what a receiver gets, and how it verifies a delivery."""

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agentjobs.web.api import examples
from agentjobs.webhooks.events import (
    JOB_COMPLETED,
    JOB_FAILED,
    JOB_QUEUED,
    JOB_STARTED,
    PR_REVIEW_REQUESTED,
    Payload,
)
from agentjobs.webhooks.model import ClaimedDelivery, SealedSecrets, Secrets
from agentjobs.webhooks.signing import signed_headers
from agentjobs_runtime.tracing.trace_context import HEADER as TRACEPARENT

TAG = "Webhooks"
TAG_DESCRIPTION = f"""\
When a job changes state, the service sends a POST request to every endpoint of the organization
that subscribes to the event. Endpoints are set up in the dashboard.

Verify a delivery before you parse it, over the bytes of the body as received, in constant time:
`X-Service-Signature-256` is `sha256=` and the HMAC-SHA256 of the body in lowercase hex, and its key
is the endpoint's secret as text, including `whsec_`. To refuse replays as well, verify
`webhook-signature`: `v1,` and the HMAC-SHA256 in base64 of `webhook-id`, `.`, `webhook-timestamp`,
`.` and the body; its key is the base64-decoded part of the secret after `whsec_`. Reject timestamps
more than five minutes off. While a secret is being rotated, accept either of the two signatures.

A delivery succeeds with a 2xx status within 15 seconds. It is retried up to three times; 410
disables the endpoint. Deliveries may arrive more than once and out of order: `webhook-id` is the
same for every attempt, and `X-Service-Sequence` numbers the events of one job.

The examples are signed with the secret `{examples.WEBHOOK_SECRET}` while
`{examples.PENDING_WEBHOOK_SECRET}` is pending. Their body has no whitespace, and its fields are in
the order `event`, `job_id`, `repo`, `pr_url`, `timestamp`.
"""


class _Event(NamedTuple):
    operation_id: str
    summary: str
    description: str
    sequence: int
    pr_url: str | None
    occurred_at: str


_EVENTS: Mapping[str, _Event] = {
    JOB_QUEUED: _Event(
        "jobQueued",
        "A job was queued",
        "A job was accepted and is waiting to start. Sent again when its worker was lost or "
        "stopped and the job returns to the queue.",
        1,
        None,
        examples.CREATED_AT,
    ),
    JOB_STARTED: _Event(
        "jobStarted",
        "A job started",
        "The agent began running. Sent again at every new start.",
        2,
        None,
        examples.STARTED_AT,
    ),
    JOB_COMPLETED: _Event(
        "jobCompleted",
        "A job completed",
        "The agent finished and a pull request was opened. For an agent that completes with a "
        "report, `pr_url` is null.",
        3,
        examples.PULL_URL,
        examples.COMPLETED_AT,
    ),
    JOB_FAILED: _Event(
        "jobFailed",
        "A job failed",
        "The agent stopped without opening a pull request: the job failed, timed out or was "
        "cancelled. `error` of the job says why.",
        3,
        None,
        examples.COMPLETED_AT,
    ),
    PR_REVIEW_REQUESTED: _Event(
        "prReviewRequested",
        "A pull request is ready for review",
        "The pull request is ready for human review. Sent at most once per job, after "
        "`job.completed`; for a draft, once it is marked ready.",
        4,
        examples.PULL_URL,
        examples.COMPLETED_AT,
    ),
}
_STRING = {"type": "string"}
_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "X-Service-Signature-256": (
        "The signature of the body: `sha256=` and 64 lowercase hex digits.",
        {"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"},
    ),
    "X-Service-Signature-256-Next": (
        "The same with the pending secret; only while a secret is being rotated.",
        {"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"},
    ),
    "X-Service-Event": ("The event, as in the body.", _STRING),
    "X-Service-Delivery": (
        "The delivery in the delivery log; the same for every attempt.",
        _STRING,
    ),
    "X-Service-Sequence": (
        "Numbers the events of one job, starting at 1.",
        {"type": "integer", "minimum": 1},
    ),
    "webhook-id": ("The event; the same for every endpoint and every attempt.", _STRING),
    "webhook-timestamp": (
        "When this attempt was made, in seconds since 1970.",
        {"type": "integer", "minimum": 0},
    ),
    "webhook-signature": (
        "`v1,` and a signature in base64; two, separated by a space, during a rotation.",
        _STRING,
    ),
    TRACEPARENT: (
        "The job's trace, as in W3C Trace Context; only if it has one.",
        _STRING,
    ),
}
_OPTIONAL = ("X-Service-Signature-256-Next", TRACEPARENT)
_RESPONSES = {
    "2XX": {"description": "Received. The body is ignored."},
    "410": {"description": "The endpoint is gone; the service disables it."},
    "default": {"description": "Any other status, or none within 15 s: the delivery is retried."},
}


def build_webhooks(payload_schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"post": _operation(name, event, payload_schema)} for name, event in _EVENTS.items()
    }


def _operation(name: str, event: _Event, payload_schema: Mapping[str, Any]) -> dict[str, Any]:
    payload, headers = _example(name, event)
    return {
        "operationId": event.operation_id,
        "tags": [TAG],
        "summary": event.summary,
        "description": event.description,
        "security": [],
        "parameters": [_parameter(header, headers) for header in _HEADERS],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": payload_schema, "example": payload}},
        },
        "responses": _RESPONSES,
    }


def _parameter(name: str, headers: Mapping[str, str]) -> dict[str, Any]:
    description, schema = _HEADERS[name]
    text = headers[name]
    return {
        "name": name,
        "in": "header",
        "description": description,
        "required": name not in _OPTIONAL,
        "schema": schema,
        "example": int(text) if schema["type"] == "integer" else text,
    }


def _example(name: str, event: _Event) -> tuple[dict[str, Any], dict[str, str]]:
    """The payload and its headers, signed as a sender does."""
    payload = Payload(name, examples.JOB_ID, examples.REPO, event.pr_url, event.occurred_at)
    delivery = ClaimedDelivery(
        id=examples.DELIVERY_ID,
        fence=1,
        organization_id="",
        endpoint_id="",
        url="",
        secrets=SealedSecrets(b""),
        event_id=examples.EVENT_ID,
        event=name,
        job_id=examples.JOB_ID,
        sequence=event.sequence,
        body=msgspec.json.encode(payload),
    )
    secrets = Secrets(examples.WEBHOOK_SECRET, examples.PENDING_WEBHOOK_SECRET)
    sent_at = datetime.datetime.fromisoformat(event.occurred_at)
    headers = signed_headers(delivery, secrets, int(sent_at.timestamp()) * 1_000)
    return msgspec.to_builtins(payload), {**headers, TRACEPARENT: examples.TRACEPARENT}
