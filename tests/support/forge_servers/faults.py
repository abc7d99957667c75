"""Faults that a test injects into a contract server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["response", "redirect_loop", "cut", "slow"]


@dataclass
class Fault:
    """Applies to `times` requests; None for all, until `server.clear_faults()`.

    `on` limits it to operations whose name ("POST /repos/{owner}/{repo}/pulls") or git service
    ("git-receive-pack") begins with it.
    `{credential}` in the message is replaced by the request's credential.
    `after`: the request is processed first, and only its response is lost.
    """

    kind: Kind = "response"
    status: int = 500
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    # Sent unchanged, instead of an error in the platform's format.
    raw: bytes | None = None
    content_type: str = "application/json"
    times: int | None = 1
    on: str = ""
    after: bool = False
    seconds: float = 60.0


def unauthorized(message: str = "Bad credentials", **fields: object) -> Fault:
    return Fault(status=401, message=message, **fields)  # type: ignore[arg-type]


def forbidden(message: str, **fields: object) -> Fault:
    return Fault(status=403, message=message, **fields)  # type: ignore[arg-type]


def missing(message: str = "Not Found", **fields: object) -> Fault:
    return Fault(status=404, message=message, **fields)  # type: ignore[arg-type]


def too_many(retry_after: int = 30, **fields: object) -> Fault:
    headers = {"Retry-After": str(retry_after)}
    return Fault(status=429, message="Too many requests", headers=headers, **fields)  # type: ignore[arg-type]


def server_error(status: int = 500, **fields: object) -> Fault:
    return Fault(status=status, **fields)  # type: ignore[arg-type]


def web_page(status: int = 502, **fields: object) -> Fault:
    page = b"<!DOCTYPE html><html><title>502</title><body>Bad gateway</body></html>"
    return Fault(status=status, raw=page, content_type="text/html", **fields)  # type: ignore[arg-type]


def broken_json(**fields: object) -> Fault:
    return Fault(status=200, raw=b'{"id": 1, "na', **fields)  # type: ignore[arg-type]


def redirect_loop(**fields: object) -> Fault:
    return Fault(kind="redirect_loop", times=None, **fields)  # type: ignore[arg-type]


def cut(**fields: object) -> Fault:
    return Fault(kind="cut", **fields)  # type: ignore[arg-type]


def slow(seconds: float = 60.0, **fields: object) -> Fault:
    return Fault(kind="slow", seconds=seconds, **fields)  # type: ignore[arg-type]
