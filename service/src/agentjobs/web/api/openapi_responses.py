"""The responses of operations in the OpenAPI document, and their headers."""

from collections.abc import Mapping
from typing import Any

from agentjobs.web.api.error_codes import API_ERRORS, STATUS_OF
from agentjobs.web.api.errors import ErrorBody
from agentjobs.web.api.examples import error_example, response_example
from agentjobs.web.api.openapi_schemas import reference_to
from agentjobs.web.api.operation import Operation, SuccessResponse

COMMON_ERRORS = (
    "bad_request",
    "unauthorized",
    "unsupported_media_type",
    "rate_limited",
    "headers_too_large",
    "internal_error",
    "unavailable",
)

# For a field of the response, the operations to call next and their parameters.
_LINKS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "job_id": (
        ("getJob", "getJobLogs", "listJobEvents", "getJobDiff", "listJobArtifacts", "cancelJob"),
        {"job_id": "$response.body#/job_id"},
    ),
    "repos": (("getRepo", "listDependencies"), {"repo_id": "$response.body#/repos/0/id"}),
    "agents": (("getAgent",), {"agent_id": "$response.body#/agents/0/id"}),
    "pulls": (
        ("getPull", "mergePull", "closePull"),
        {"pull_id": "$response.body#/pulls/0/id"},
    ),
    "vulnerabilities": (
        ("dismissVulnerability", "reopenVulnerability"),
        {"vulnerability_id": "$response.body#/vulnerabilities/0/id"},
    ),
}
_TEXT = {"type": "string"}
# Generated clients read it as bytes.
_ANY_CONTENT = {**_TEXT, "format": "binary"}
_INTEGER = {"type": "integer", "minimum": 0}
_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "X-Request-Id": (
        "Identifies the request in logs; a valid one in the request is kept.",
        _TEXT,
    ),
    "WWW-Authenticate": ("How to authenticate.", _TEXT),
    "Retry-After": ("Seconds to wait before repeating the request.", _INTEGER),
    "RateLimit-Limit": ("Requests that the API key may send at once.", _INTEGER),
    "RateLimit-Remaining": ("Requests left.", _INTEGER),
    "RateLimit-Reset": (
        "Seconds until all are available again; after `rate_limited`, until the next one is.",
        _INTEGER,
    ),
}
_HEADERS_OF_STATUS = {
    401: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_RATE_LIMIT_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
# Statuses of errors that only occur before a request is authenticated, or before it reaches a path.
_UNLIMITED_STATUSES = frozenset({401, 431})


def build_responses(operation: Operation) -> dict[str, Any]:
    success = {str(operation.response.status): _success(operation.response)}
    return {**success, **_errors(operation)}


def shared_headers() -> dict[str, Any]:
    return {name: _header(*fields) for name, fields in _HEADERS.items()}


def shared_responses() -> dict[str, Any]:
    """Errors that every operation may return."""
    return {code: _error(STATUS_OF[code], [code]) for code in COMMON_ERRORS}


def _success(response: SuccessResponse) -> dict[str, Any]:
    content: dict[str, Any] = {
        media_type: {"schema": _ANY_CONTENT if media_type == "*/*" else _TEXT, "example": text}
        for media_type, text in response.texts.items()
    }
    if response.type is not None:
        example = {**response_example(response.type), **response.example_fields}
        content |= json_content(response.type, example)
    own = {name: _header(text, _TEXT) for name, text in response.headers.items()}
    described = {
        "description": response.description,
        "headers": {**_header_references(("X-Request-Id", *_RATE_LIMIT_HEADERS)), **own},
        "content": content,
    }
    links = _links(response)
    return {**described, "links": links} if links else described


def _links(response: SuccessResponse) -> dict[str, Any]:
    """The operations that take an identifier of the response."""
    fields = getattr(response.type, "__struct_fields__", ())
    return {
        name: {"operationId": name, "parameters": dict(parameters)}
        for field, (names, parameters) in _LINKS.items()
        if field in fields
        for name in names
    }


def _errors(operation: Operation) -> dict[str, Any]:
    # No route matches an identifier with a slash or a control character.
    unrouted = ("not_found",) if "{" in operation.path else ()
    by_status: dict[int, list[str]] = {}
    for code in (*COMMON_ERRORS, *unrouted, *operation.all_errors):
        by_status.setdefault(STATUS_OF[code], []).append(code)
    return {str(status): _share(status, by_status[status]) for status in sorted(by_status)}


def _share(status: int, codes: list[str]) -> dict[str, Any]:
    if len(codes) > 1 or codes[0] not in COMMON_ERRORS:
        return _error(status, codes)
    return {"$ref": f"#/components/responses/{codes[0]}"}


def _error(status: int, codes: list[str]) -> dict[str, Any]:
    limits = () if status in _UNLIMITED_STATUSES else _RATE_LIMIT_HEADERS
    names = ("X-Request-Id", *_HEADERS_OF_STATUS.get(status, ()), *limits)
    return {
        "description": "\n".join(f"- `{code}`: {API_ERRORS[code]}" for code in codes),
        "headers": _header_references(names),
        "content": {
            "application/json": {
                "schema": reference_to(ErrorBody),
                "examples": {code: {"value": error_example(code)} for code in codes},
            }
        },
    }


def _header_references(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "schema": dict(schema)}


def json_content(type_: Any, example: Any) -> dict[str, Any]:
    return {"application/json": {"schema": reference_to(type_), "example": example}}
