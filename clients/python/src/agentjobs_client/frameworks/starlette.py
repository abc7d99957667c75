"""Webhooks in Starlette and FastAPI."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agentjobs_client.webhooks import (
    DEFAULT_TOLERANCE_SECONDS,
    MAX_BODY_BYTES,
    BodyTooLarge,
    WebhookError,
    WebhookEvent,
    verify_webhook,
)


async def read_webhook(
    request: Request,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float | None = DEFAULT_TOLERANCE_SECONDS,
    max_bytes: int = MAX_BODY_BYTES,
) -> WebhookEvent:
    """The verified event of a request. Raises HTTPException with the right status otherwise."""
    try:
        body = await _read_body(request, max_bytes)
        return verify_webhook(body, request.headers, secret, tolerance_seconds=tolerance_seconds)
    except WebhookError as error:
        raise HTTPException(error.response_status, str(error)) from error


async def _read_body(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise BodyTooLarge(max_bytes)
    return bytes(body)
