"""A delivery as a document for programs and as lines for people. Asks nobody anything.

What a receiver answered is a stranger's: its headers stay on their line, its bytes are text only
if they are UTF-8, and nothing of it moves a cursor.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentjobs.cli.output import of_a_stranger, on_one_line

if TYPE_CHECKING:
    from agentjobs.webhooks.log import AttemptSummary, Delivery, DeliveryDetail
    from agentjobs.webhooks.model import Attempt, Headers

SUMMARY = ("status_code", "error_class", "error", "duration_ms", "address")


def document(delivery: "Delivery") -> dict[str, Any]:
    from agentjobs.clock import iso_utc, iso_utc_or_none

    return {
        "id": delivery.id,
        "event": delivery.event,
        "job_id": delivery.job_id,
        "endpoint": delivery.endpoint_id,
        "url": delivery.url,
        "status": delivery.status,
        "created_at": iso_utc(delivery.created_at),
        "next_attempt_at": iso_utc_or_none(delivery.next_attempt_at),
        "attempts": [_summary(attempt) for attempt in delivery.attempts],
    }


def detail_document(detail: "DeliveryDetail") -> dict[str, Any]:
    """Headers as pairs, because a name may occur twice."""
    attempts = [
        {
            **_summary(attempt),
            "request_headers": attempt.request_headers,
            "response_headers": attempt.response_headers,
            **_body("response_body", attempt.response_body),
        }
        for attempt in detail.attempts
    ]
    return {
        **document(detail.delivery),
        "event_id": detail.delivery.event_id,
        "sequence": detail.delivery.sequence,
        **_body("request_body", detail.body),
        "attempts": attempts,
    }


def shown(detail: "DeliveryDetail") -> Iterator[str]:
    delivery = detail.delivery
    facts = document(delivery)
    yield f"{delivery.id} {delivery.event} ({delivery.status})"
    yield f"to {on_one_line(delivery.url)} ({delivery.endpoint_id})"
    yield f"job {delivery.job_id}, event {delivery.event_id}, sequence {delivery.sequence}"
    yield f"created {facts['created_at']}"
    if facts["next_attempt_at"] is not None:
        yield f"next attempt {facts['next_attempt_at']}"
    yield f"\nBody of every request:\n{_text(detail.body)}"
    for number, attempt in enumerate(detail.attempts, 1):
        yield f"\nAttempt {number}, {_outcome(attempt)}"
        yield "Request:"
        yield from _headers(attempt.request_headers)
        if attempt.status_code is not None:
            yield "Response:"
            yield from _headers(attempt.response_headers)
            yield f"\n{_text(attempt.response_body)}"


def _outcome(attempt: "Attempt") -> str:
    from agentjobs.clock import iso_utc

    status = "no answer" if attempt.status_code is None else f"status {attempt.status_code}"
    where = f" from {attempt.address}" if attempt.address else ""
    line = f"{iso_utc(attempt.at)}: {status}{where} after {attempt.duration_ms} ms"
    if attempt.error_class is not None:
        line += f"\n{attempt.error_class}: {attempt.error or ''}"
    return "\n".join(on_one_line(part) for part in line.split("\n"))


def _summary(attempt: "AttemptSummary | Attempt") -> dict[str, Any]:
    from agentjobs.clock import iso_utc

    return {"at": iso_utc(attempt.at), **{name: getattr(attempt, name) for name in SUMMARY}}


def _headers(headers: "Headers") -> Iterator[str]:
    for name, value in headers:
        yield f"  {on_one_line(name)}: {on_one_line(value)}"


def _body(name: str, data: bytes) -> dict[str, str | None]:
    try:
        return {name: data.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": b64encode(data).decode()}


def _text(data: bytes) -> str:
    if not data:
        return "(empty)"
    try:
        return of_a_stranger(data.decode())
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are not text; --json shows them in base64)"
