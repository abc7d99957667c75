"""Webhooks in Django."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from agentjobs_client.webhooks import (
    DEFAULT_TOLERANCE_SECONDS,
    MAX_BODY_BYTES,
    BodyTooLarge,
    WebhookError,
    WebhookEvent,
    verify_webhook,
)

View = Callable[..., Any]


def webhook_view(
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float | None = DEFAULT_TOLERANCE_SECONDS,
    max_bytes: int = MAX_BODY_BYTES,
) -> Callable[[View], View]:
    """A decorator for `view(request, event)`, which is called only with verified events.

    The view may be asynchronous. It needs no CSRF token, because deliveries are signed.
    """

    def read(request: HttpRequest) -> WebhookEvent | HttpResponseBase:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            body = _read_body(request, max_bytes)
            return verify_webhook(
                body, request.headers, secret, tolerance_seconds=tolerance_seconds
            )
        except WebhookError as error:
            message = str(error)
            return HttpResponse(message, status=error.response_status, content_type="text/plain")

    def decorate(view: View) -> View:
        @wraps(view)
        def receive(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            event = read(request)
            if not isinstance(event, WebhookEvent):
                return event
            return view(request, event, *args, **kwargs)

        @wraps(view)
        async def receive_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            response = receive(request, *args, **kwargs)
            return response if isinstance(response, HttpResponseBase) else await response

        exempt: View = csrf_exempt(receive_async if iscoroutinefunction(view) else receive)
        return exempt

    return decorate


def _read_body(request: HttpRequest, max_bytes: int) -> bytes:
    body: bytes = request.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise BodyTooLarge(max_bytes)
    return body
