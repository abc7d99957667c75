"""The exceptions of this package, with one base class."""

from typing import Any

import httpx
import msgspec


class ClientError(Exception):
    """The base class of this package's exceptions."""


class ServiceUnreachable(ClientError):
    """No response: the address is wrong, or the service or the network is down."""


class UnexpectedAnswer(ClientError):
    """A response that is not the service's, such as a proxy's error page."""

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
    """An error response of the service. `code` is stable, `message` says what to do next."""

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


def error_from(response: httpx.Response) -> ClientError:
    """The exception for an unsuccessful response, whose body must have been read."""
    retry_after_seconds = _seconds(response.headers.get("Retry-After"))
    try:
        body = msgspec.json.decode(response.content, type=_Envelope).error
    except msgspec.DecodeError:
        return UnexpectedAnswer(
            f"{response.url} returned {response.status_code} in an unknown format; check that the "
            "address is the service's and ends in /v1.",
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
