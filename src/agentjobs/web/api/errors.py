"""The one error shape and what each code means in HTTP. Decides nothing about when to refuse."""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from agentjobs.problems import Details, Problem
from agentjobs.store.database import StoreUnavailable

STATUS_OF: Mapping[str, int] = {
    "invalid_json": 400,
    "bad_request": 400,
    "unauthorized": 401,
    "not_signed_in": 401,
    "sign_in_failed": 401,
    "wrong_password": 401,
    "insufficient_scope": 403,
    "foreign_origin": 403,
    "form_expired": 403,
    "https_required": 403,
    "managed_by_provider": 403,
    "role_required": 403,
    "plan_required": 403,
    "job_not_found": 404,
    "repo_not_found": 404,
    "pull_not_found": 404,
    "organization_not_found": 404,
    "delivery_not_found": 404,
    "endpoint_not_found": 404,
    "key_not_found": 404,
    "member_not_found": 404,
    "secret_not_found": 404,
    "user_not_found": 404,
    "not_found": 404,
    "import_not_found": 404,
    "forge_not_found": 404,
    "tracker_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "idempotency_in_progress": 409,
    "follow_up_active": 409,
    "forge_in_use": 409,
    "job_finished": 409,
    "name_taken": 409,
    "merge_conflict": 409,
    "pull_elsewhere": 409,
    "pull_is_draft": 409,
    "pull_not_open": 409,
    "repo_connected": 409,
    "repo_indexing": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "forge_denied": 422,
    "forge_gone": 422,
    "forge_refused": 422,
    "forge_unauthorized": 422,
    "idempotency_key_reused": 422,
    "invalid_credential": 422,
    "invalid_source": 422,
    "repo_not_connected": 422,
    "tracker_refused": 422,
    "unknown_agent": 422,
    "validation_failed": 422,
    "queue_full": 429,
    "rate_limited": 429,
    "too_many_attempts": 429,
    "too_many_imports": 429,
    "too_many_streams": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "forge_unavailable": 503,
    "provider_unavailable": 503,
    "repo_unavailable": 503,
    "unavailable": 503,
}

_FALLBACK_STATUS = 400
_STORE_RETRY_SECONDS = 2
_STOPPING_RETRY_SECONDS = 5

_CODE_OF_STATUS = {
    400: "bad_request",
    401: "unauthorized",
    403: "insufficient_scope",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    503: "unavailable",
}


class ErrorFields(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    request_id: str
    details: Details | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorFields


class HttpProblem(Problem):
    """A problem that only HTTP has, with the headers its answer must carry."""

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


def status_of(problem: Problem) -> int:
    return STATUS_OF.get(problem.code, _FALLBACK_STATUS)


def error_response(
    problem: Problem, request_id: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    fields = ErrorFields(problem.code, problem.message, request_id, problem.details)
    return Response(
        msgspec.json.encode(ErrorBody(fields)),
        status_code=status_of(problem),
        headers={**headers_of(problem), **(headers or {})},
        media_type="application/json",
    )


def problem_of(error: Exception) -> Problem | None:
    """What an exception means to the client; None for one that nobody foresaw."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreUnavailable):
        return Problem(
            "unavailable",
            "The store cannot be reached at the moment; nothing was changed. Repeat the request.",
            retry_after_seconds=_STORE_RETRY_SECONDS,
        )
    if isinstance(error, HTTPException):
        return _problem_of_status(error)
    return None


def not_found() -> Problem:
    return Problem(
        "not_found", "There is nothing at this address; /v1/docs lists the endpoints there are."
    )


def method_not_allowed(method: str, allow: str) -> Problem:
    return HttpProblem(
        "method_not_allowed",
        f"This address does not take {method}; it takes {allow}.",
        headers={"Allow": allow},
    )


def validation_failed(faults: list[dict[str, str]]) -> Problem:
    named = ", ".join(dict.fromkeys(fault["field"] for fault in faults))
    return Problem(
        "validation_failed",
        f"The request cannot be used as it is; correct {named} (see details).",
        details=faults,
    )


def internal_error() -> Problem:
    return Problem(
        "internal_error",
        "The service failed on this request. Repeat it later; "
        "if it fails again, tell the operator the request_id.",
    )


def stopping() -> Problem:
    return Problem(
        "unavailable",
        "The service is shutting down; repeat the request in a moment.",
        retry_after_seconds=_STOPPING_RETRY_SECONDS,
    )


def headers_of(problem: Problem) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if problem.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after_seconds is not None:
        headers["Retry-After"] = str(problem.retry_after_seconds)
    if isinstance(problem, HttpProblem):
        headers.update(problem.headers)
    return headers


def _problem_of_status(error: HTTPException) -> Problem:
    if error.status_code == 404:
        return not_found()
    code = _CODE_OF_STATUS.get(error.status_code, "internal_error")
    headers = {name.title(): value for name, value in (error.headers or {}).items()}
    if code == "method_not_allowed":
        allow = ", ".join(sorted(headers.pop("Allow", "").replace(" ", "").split(",")))
        return method_not_allowed("this method", allow)
    return HttpProblem(code, str(error.detail), headers=headers)
