"""What can go wrong between a client and the service; one base class to catch."""

from typing import Any

import httpx
import msgspec


class ClientError(Exception):
    """Anything this package raises on purpose."""


class ServiceUnreachable(ClientError):
    """No answer: the address is wrong, the service is down, or the network is."""


class UnexpectedAnswer(ClientError):
    """An answer that is not this interface's, such as a proxy's error page."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class ApiError(ClientError):
    """A refusal by the service. `code` is stable, `message` says what to do next."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        request_id: str | None = None,
        details: Any = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        faults = self.details if isinstance(self.details, list) else []
        listed = "; ".join(
            f"{fault.get('field')}: {fault.get('message')}"
            for fault in faults
            if isinstance(fault, dict)
        )
        return f"{self.message} ({self.code}{': ' + listed if listed else ''})"


class _ErrorBody(msgspec.Struct):
    code: str
    message: str
    request_id: str | None = None
    details: Any = None


class _Envelope(msgspec.Struct):
    error: _ErrorBody


def error_in(response: httpx.Response) -> ClientError:
    """The exception for a response that is not a success; its body must have been read."""
    retry_after_seconds = _seconds(response.headers.get("Retry-After"))
    try:
        body = msgspec.json.decode(response.content, type=_Envelope).error
    except msgspec.DecodeError:
        return UnexpectedAnswer(
            f"{response.url} answered {response.status_code} in a form this client does not know; "
            "is it the address of the service, ending in /v1?",
            status=response.status_code,
            retry_after_seconds=retry_after_seconds,
        )
    return ApiError(
        response.status_code,
        body.code,
        body.message,
        request_id=body.request_id or response.headers.get("X-Request-Id"),
        details=body.details,
        retry_after_seconds=retry_after_seconds,
    )


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
