"""The error response: one shape for every code."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from agentjobs.store.database import StoreFull, StoreUnavailable
from agentjobs.web.api.error_codes import API_ERRORS, STATUS_OF
from agentjobs_runtime.json_fields import doc, known_values
from agentjobs_runtime.problems import Details, Fault, Problem

_FALLBACK_STATUS = 400
_STORE_RETRY_SECONDS = 2
_STOPPING_RETRY_SECONDS = 5


class ErrorFields(msgspec.Struct, frozen=True):
    code: Annotated[str, known_values("A stable code.", API_ERRORS)]
    message: Annotated[str, doc("A message for people that says what to do next.")]
    request_id: Annotated[str, doc("The `X-Request-Id` of this response.")]
    details: Annotated[
        Details | msgspec.UnsetType,
        doc("All invalid fields, or further information that depends on the code."),
    ] = msgspec.UNSET


class ErrorBody(msgspec.Struct, frozen=True):
    error: Annotated[ErrorFields, doc("Why the request failed.")]


class HttpProblem(Problem):
    """A problem of HTTP itself, with headers for the response."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str],
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(code, message, retry_after_seconds=retry_after_seconds)
        self.headers = headers


def find_status(problem: Problem) -> int:
    return STATUS_OF.get(problem.code, _FALLBACK_STATUS)


def error_response(
    problem: Problem, request_id: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    details = msgspec.UNSET if problem.details is None else problem.details
    fields = ErrorFields(problem.code, problem.message, request_id, details)
    return Response(
        msgspec.json.encode(ErrorBody(fields)),
        status_code=find_status(problem),
        headers={**build_headers(problem), **(headers or {})},
        media_type="application/json",
    )


def to_problem(error: Exception) -> Problem | None:
    """The problem for a known exception; None for an unexpected one."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreFull):
        return Problem(
            "unavailable",
            "The disk of the database is full; nothing was changed. Try again later; the operator"
            " has to free some space.",
            retry_after_seconds=_STORE_RETRY_SECONDS,
        )
    if isinstance(error, StoreUnavailable):
        return Problem(
            "unavailable",
            "The database is temporarily unavailable; nothing was changed. Retry the request.",
            retry_after_seconds=_STORE_RETRY_SECONDS,
        )
    if isinstance(error, HTTPException):
        return _explain_refusal(error)
    return None


class UnknownPathProblem(Problem):
    """No route has this path."""


def not_found() -> Problem:
    return UnknownPathProblem(
        "not_found", "There is nothing at this path; /v1/docs lists all endpoints."
    )


def method_not_allowed(method: str, allow: str) -> Problem:
    return HttpProblem(
        "method_not_allowed",
        f"This path does not accept {method}; it accepts {allow}.",
        headers={"Allow": allow},
    )


def validation_failed(faults: list[Fault]) -> Problem:
    """Reports the first fault of each field."""
    by_field: dict[str, Fault] = {}
    for fault in faults:
        by_field.setdefault(fault["field"], fault)
    return Problem(
        "validation_failed",
        f"The request is not valid; correct {', '.join(by_field)} (see details).",
        details=list(by_field.values()),
    )


def internal_error() -> Problem:
    return Problem(
        "internal_error",
        "The service failed on this request. Retry later; "
        "if it fails again, send the request_id to the operator.",
    )


def stopping() -> Problem:
    return Problem(
        "unavailable",
        "The service is shutting down; retry the request in a moment.",
        retry_after_seconds=_STOPPING_RETRY_SECONDS,
    )


def build_headers(problem: Problem) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if problem.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after_seconds is not None:
        headers["Retry-After"] = str(problem.retry_after_seconds)
    if isinstance(problem, HttpProblem):
        headers.update(problem.headers)
    return headers


def _explain_refusal(error: HTTPException) -> Problem:
    """Starlette refuses unknown paths, wrong methods and malformed forms."""
    match error.status_code:
        case 404:
            return not_found()
        case 405:
            allow = (error.headers or {}).get("Allow", "")
            return method_not_allowed("this method", ", ".join(sorted(allow.split(", "))))
        case _:
            return Problem("bad_request", error.detail)
