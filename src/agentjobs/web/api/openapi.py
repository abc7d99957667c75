"""The OpenAPI 3.1 document, built from the operations and their types."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from agentjobs.web.api.deprecation import DOCUMENTED_HEADERS, Deprecation
from agentjobs.web.api.error_codes import API_ERRORS, STATUS_OF
from agentjobs.web.api.errors import ErrorBody
from agentjobs.web.api.examples import QUERY_EXAMPLES, error_example
from agentjobs.web.api.openapi_schemas import build_schemas, reference_to
from agentjobs.web.api.openapi_webhooks import TAG, TAG_DESCRIPTION, build_webhooks
from agentjobs.web.api.operation import TAG_DESCRIPTIONS, Operation, Parameter, SuccessResponse
from agentjobs.webhooks.events import Payload

COMMON_ERRORS = (
    "bad_request",
    "unauthorized",
    "unsupported_media_type",
    "rate_limited",
    "headers_too_large",
    "internal_error",
    "unavailable",
)

_NULL = {"type": "null"}
_DESCRIPTION = """\
Runs coding agents against the repositories of an organization: a job is queued, an agent works on a
fresh checkout in a sandbox, and its changes become a pull request.

Every request carries `Authorization: Bearer <API_KEY>`. Every response carries `X-Request-Id`.
Responses to requests with a valid key carry `RateLimit-Limit`, `RateLimit-Remaining` and
`RateLimit-Reset`, unless the operator has disabled the rate limit.
Every error has the same format: `{"error": {"code", "message", "request_id", "details"?}}`. An
unknown path returns `not_found`, an unsupported method `method_not_allowed`.

Unknown query parameters and unknown top-level fields of a body are ignored. A JSON response names
them in `warnings`, which it may have in addition to its other fields.

Clients must accept unknown fields and values. Fields whose set of values may grow, such as `status`
or `code`, list their current values in `x-extensible-enum`. Operations and parameters that a later
version removes are announced at least a year before, with the headers `Deprecation` and `Sunset`.
"""
# For a field of the response, the operations to call next and their parameters.
_LINKS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "job_id": (
        ("getJob", "getJobLogs", "listJobEvents", "getJobDiff", "listJobArtifacts", "cancelJob"),
        {"job_id": "$response.body#/job_id"},
    ),
    "repos": (("getRepo", "listDependencies"), {"repo_id": "$response.body#/repos/0/id"}),
    "agents": (("getAgent",), {"agent_id": "$response.body#/agents/0/id"}),
    "pulls": (("getPull",), {"pull_id": "$response.body#/pulls/0/id"}),
}
_TEXT = {"type": "string"}
# Generated clients read it as bytes.
_ANY_CONTENT = {**_TEXT, "format": "binary"}
_INTEGER = {"type": "integer", "minimum": 0}
_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "X-Request-Id": (
        "Identifies the request in logs; a valid one in the request is kept.",
        {"type": "string"},
    ),
    "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
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


def build_document(operations: Iterable[Operation], *, base: str) -> dict[str, Any]:
    operations = tuple(operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Agent Job Service",
            "version": "1.0",
            "description": _DESCRIPTION,
            "contact": {"name": "The administrators of this service"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base, "description": "This service"}],
        "security": [{"api_key": []}],
        "tags": _tags(operations),
        "paths": _paths(operations),
        "webhooks": build_webhooks(reference_to(Payload)),
        "components": {
            "schemas": build_schemas(operations),
            "headers": {name: _header(*fields) for name, fields in _HEADERS.items()},
            "securitySchemes": {
                "api_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of the organization. Its scope is `jobs`, or "
                    "`read` for GET requests only. Merging and closing pull requests needs the "
                    "scope `pulls` in addition, which no key has by default.",
                }
            },
        },
    }


def _tags(operations: Iterable[Operation]) -> list[dict[str, str]]:
    used = dict.fromkeys(each.tag for each in operations)
    tags = [{"name": tag, "description": TAG_DESCRIPTIONS[tag]} for tag in used]
    return [*tags, {"name": TAG, "description": TAG_DESCRIPTION}]


def _paths(operations: Iterable[Operation]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return paths


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.deprecation is not None:
        described |= _deprecated(operation.description, operation.deprecation)
    parameters = [*map(_parameter, operation.parameters), *_query_parameters(operation)]
    if parameters:
        described["parameters"] = parameters
    if operation.request is not None:
        described["requestBody"] = {
            "required": any(field.required for field in structs.fields(operation.request)),
            "content": _json(operation.request, operation.request_example),
        }
    described["responses"] = {
        str(operation.response.status): _success(operation.response),
        **_errors(_error_codes(operation)),
    }
    if operation.deprecation is not None or operation.deprecated_parameters:
        announced = {
            name: _header(text, {"type": "string"}) for name, text in DOCUMENTED_HEADERS.items()
        }
        for response in described["responses"].values():
            response["headers"] |= announced
    return described


def _deprecated(description: str, deprecation: Deprecation) -> dict[str, Any]:
    return {"deprecated": True, "description": f"{description}\n\n{deprecation.note}"}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.description,
        "required": parameter.where == "path",
        "schema": dict(parameter.schema),
    }
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    type_ = operation.query
    if type_ is None:
        return []
    _, components = msgspec.json.schema_components([type_])
    return [
        _query_parameter(name, _without_null(field), operation.deprecated_parameters.get(name))
        for name, field in components[type_.__name__]["properties"].items()
    ]


def _query_parameter(
    name: str, schema: dict[str, Any], deprecation: Deprecation | None
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "in": "query",
        "description": schema.pop("description"),
        "required": False,
        "schema": schema,
    }
    if schema.get("type") == "object":
        # With this style the name is not sent, only the properties are.
        described |= {"style": "form", "explode": True}
        described["schema"] = _prefixed_properties(schema, name)
    if name in QUERY_EXAMPLES:
        described["example"] = QUERY_EXAMPLES[name]
    if deprecation is not None:
        described |= _deprecated(described["description"], deprecation)
    return described


def _prefixed_properties(schema: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    pattern = schema["propertyNames"]["pattern"].removeprefix("^")
    return {**schema, "propertyNames": {"pattern": f"^{prefix}\\.{pattern}"}}


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An absent parameter has no value; null, or nothing, is only its default in the code."""
    schema = dict(schema)
    if schema.get("default") in (None, [], {}):
        schema.pop("default", None)
    options = schema.pop("anyOf", [])
    schema = {**next((each for each in options if each != _NULL), {}), **schema}
    return {"type": "string", **schema} if "enum" in schema else schema


def _success(response: SuccessResponse) -> dict[str, Any]:
    content: dict[str, Any] = {
        media_type: {"schema": _ANY_CONTENT if media_type == "*/*" else _TEXT, "example": text}
        for media_type, text in response.texts.items()
    }
    if response.type is not None:
        content |= _json(response.type, response.example)
    own = {name: _header(text, {"type": "string"}) for name, text in response.headers.items()}
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


def _error_codes(operation: Operation) -> tuple[str, ...]:
    # No route matches an identifier with a slash or a control character.
    unrouted = ("not_found",) if "{" in operation.path else ()
    return (*COMMON_ERRORS, *unrouted, *operation.errors)


def _errors(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS_OF[code], []).append(code)
    return {str(status): _error(status, by_status[status]) for status in sorted(by_status)}


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


def _json(type_: Any, example: Any) -> dict[str, Any]:
    return {"application/json": {"schema": reference_to(type_), "example": example}}
