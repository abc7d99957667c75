"""Webhooks in Flask."""

from collections.abc import Sequence

from flask import Request, abort

from agentjobs_client.webhooks import (
    DEFAULT_TOLERANCE_SECONDS,
    MAX_BODY_BYTES,
    BodyTooLarge,
    WebhookError,
    WebhookEvent,
    verify_webhook,
)


def read_webhook(
    request: Request,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float | None = DEFAULT_TOLERANCE_SECONDS,
    max_bytes: int = MAX_BODY_BYTES,
) -> WebhookEvent:
    """The verified event of a request. Aborts with the right status otherwise."""
    try:
        body, headers = _read_body(request, max_bytes), dict(request.headers)
        return verify_webhook(body, headers, secret, tolerance_seconds=tolerance_seconds)
    except WebhookError as error:
        abort(error.response_status, str(error))


def _read_body(request: Request, max_bytes: int) -> bytes:
    length = request.content_length
    # With a length, `get_data` also returns what was read before.
    body = request.stream.read(max_bytes + 1) if length is None else b""
    if max(len(body), length or 0) > max_bytes:
        raise BodyTooLarge(max_bytes)
    return body or request.get_data()
