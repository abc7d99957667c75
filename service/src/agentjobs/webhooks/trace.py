"""The span of an attempt to deliver an event. Without the URL, whose path may be a secret."""

from contextlib import AbstractContextManager

from opentelemetry.trace import Span, SpanKind

from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs_runtime.tracing.spans import continue_trace, fail, set_attributes


def delivery_span(delivery: ClaimedDelivery) -> AbstractContextManager[Span]:
    attributes = {
        "http.request.method": "POST",
        "http.request.resend_count": delivery.attempts or None,
        "agentjobs.organization.id": delivery.organization_id,
        "agentjobs.job.id": delivery.job_id,
        "agentjobs.event": delivery.event,
        "agentjobs.delivery.id": delivery.id,
        "agentjobs.endpoint.id": delivery.endpoint_id,
    }
    name = f"deliver {delivery.event}"
    return continue_trace(name, delivery.traceparent, attributes, kind=SpanKind.CLIENT)


def record_attempt(span: Span, attempt: Attempt) -> None:
    set_attributes(span, {"http.response.status_code": attempt.status_code})
    if attempt.error_class == "http_status":
        fail(span, str(attempt.status_code))
    elif attempt.error_class is not None:
        fail(span, attempt.error_class)
