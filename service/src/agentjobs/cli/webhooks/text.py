"""Endpoints and deliveries as JSON documents, table rows and text. Never contains a secret.

Responses are untrusted: a header stays on one line, a body is shown as text only if it is UTF-8,
and no control sequence reaches the terminal.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentjobs.cli.output import escape_line, escape_text, to_document
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none

if TYPE_CHECKING:
    from agentjobs.webhooks.endpoints import Endpoint
    from agentjobs.webhooks.log import Delivery, DeliveryDetail
    from agentjobs.webhooks.model import Attempt, Headers

ENDPOINT_COLUMNS = (
    *("id", "url", "events", "state", "last success", "last failure", "failing since"),
    *("next secret signs alone from", "description"),
)
_ENDPOINT_FIELDS = (
    "id",
    "url",
    "description",
    "events",
    "enabled",
    "disabled_reason",
    "has_pending_secret",
)
_ENDPOINT_TIMES = (
    *("disabled_at", "last_success_at", "last_failure_at", "failing_since", "promote_at"),
    "created_at",
)
_ATTEMPT_FIELDS = ("status_code", "error_class", "error", "duration_ms", "address")


def org_option(endpoint: "Endpoint") -> str:
    from agentjobs.webhooks.endpoints import org_flag

    return org_flag(endpoint.organization)


def events_text(endpoint: "Endpoint") -> str:
    return ", ".join(endpoint.events) or "all events"


def endpoint_document(endpoint: "Endpoint") -> dict[str, Any]:
    return to_document(endpoint, _ENDPOINT_FIELDS, _ENDPOINT_TIMES)


def endpoint_row(endpoint: "Endpoint") -> list[Any]:
    from agentjobs.webhooks.endpoints import disabled_text

    fields = endpoint_document(endpoint)
    reason = disabled_text(endpoint)
    return [
        endpoint.id,
        endpoint.url,
        events_text(endpoint),
        f"disabled: {reason}" if reason else "enabled",
        *(fields[time] for time in ("last_success_at", "last_failure_at", "failing_since")),
        fields["promote_at"],
        endpoint.description or None,
    ]


def delivery_document(delivery: "Delivery") -> dict[str, Any]:
    return {
        "id": delivery.id,
        "event": delivery.event,
        "job_id": delivery.job_id,
        "endpoint": delivery.endpoint_id,
        "url": delivery.url,
        "status": delivery.status,
        "created_at": iso_utc(delivery.created_at),
        "next_attempt_at": iso_utc_or_none(delivery.next_attempt_at),
        "attempts": [_attempt_document(attempt) for attempt in delivery.attempts],
    }


def detail_document(detail: "DeliveryDetail") -> dict[str, Any]:
    """Headers are pairs, because a name may occur twice."""
    attempts = [
        {
            **_attempt_document(attempt),
            "request_headers": attempt.request_headers,
            "response_headers": attempt.response_headers,
            **_body_fields("response_body", attempt.response_body),
        }
        for attempt in detail.delivery.attempts
    ]
    return {
        **delivery_document(detail.delivery),
        "event_id": detail.delivery.event_id,
        "sequence": detail.delivery.sequence,
        **_body_fields("request_body", detail.body),
        "attempts": attempts,
    }


def format_delivery(detail: "DeliveryDetail") -> Iterator[str]:
    delivery = detail.delivery
    fields = delivery_document(delivery)
    yield f"{delivery.id} {delivery.event} ({delivery.status})"
    yield f"to {escape_line(delivery.url)} ({delivery.endpoint_id})"
    yield f"job {delivery.job_id}, event {delivery.event_id}, sequence {delivery.sequence}"
    yield f"created {fields['created_at']}"
    if fields["next_attempt_at"] is not None:
        yield f"next attempt {fields['next_attempt_at']}"
    yield f"\nRequest body:\n{_body_text(detail.body)}"
    for number, attempt in enumerate(delivery.attempts, 1):
        yield f"\nAttempt {number}, {_format_outcome(attempt)}"
        yield "Request:"
        yield from _format_headers(attempt.request_headers)
        if attempt.status_code is not None:
            yield "Response:"
            yield from _format_headers(attempt.response_headers)
            yield f"\n{_body_text(attempt.response_body)}"


def format_response(attempt: "Attempt") -> str:
    status = "no response" if attempt.status_code is None else f"status {attempt.status_code}"
    origin = f" from {attempt.address}" if attempt.address else ""
    return f"{status}{origin} after {attempt.duration_ms} ms"


def _format_outcome(attempt: "Attempt") -> str:
    lines = [f"{iso_utc(attempt.at)}: {format_response(attempt)}"]
    if attempt.error_class is not None:
        lines.append(f"{attempt.error_class}: {attempt.error or ''}")
    return "\n".join(escape_line(line) for line in lines)


def _attempt_document(attempt: "Attempt") -> dict[str, Any]:
    return {"at": iso_utc(attempt.at), **{name: getattr(attempt, name) for name in _ATTEMPT_FIELDS}}


def _format_headers(headers: "Headers") -> Iterator[str]:
    for name, value in headers:
        yield f"  {escape_line(name)}: {escape_line(value)}"


def _body_fields(name: str, data: bytes) -> dict[str, str | None]:
    try:
        return {name: data.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": b64encode(data).decode()}


def _body_text(data: bytes) -> str:
    if not data:
        return "(empty)"
    try:
        return escape_text(data.decode())
    except UnicodeDecodeError:
        return f"({len(data)} bytes of binary data; use --json for base64)"
