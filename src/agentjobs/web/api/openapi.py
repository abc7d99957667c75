"""The OpenAPI 3.1 document: built from the table of operations and the types they name."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agentjobs.web.api.errors import STATUS_OF, ErrorBody
from agentjobs.web.api.examples import ERROR_MEANINGS, error_example
from agentjobs.web.api.field_notes import FIELD_NOTES
from agentjobs.web.api.operation import Answer, Operation, Parameter
from agentjobs.webhooks.events import Payload

COMMON_ERRORS = ("unauthorized", "rate_limited", "internal_error", "unavailable")

_REFERENCE = "#/components/schemas/"
# Our names say what a struct is for; theirs what the specification calls it.
_PUBLIC_NAMES = {
    "JobView": "Job",
    "EventView": "Event",
    "AgentView": "Agent",
    "RepoView": "Repository",
    "DependencyDocument": "Dependency",
    "Payload": "WebhookPayload",
    "ErrorBody": "ErrorAnswer",
    "ErrorFields": "Error",
}
_DESCRIPTION = """\
Runs coding agents against the repositories of an organization: a job is queued, an agent works on a
fresh checkout in a sandbox, and what it changed becomes a pull request.

Every request carries `Authorization: Bearer <API_KEY>`. Every answer carries `X-Request-Id`. Every
failure has the same shape: `{"error": {"code", "message", "request_id", "details"?}}`. Clients must
accept fields, codes and values they do not know.
"""
# By a field of the answer: operations, and the parameters that it gives them.
_LINKS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "job_id": (
        ("getJob", "getJobLogs", "listJobEvents", "cancelJob"),
        {"job_id": "$response.body#/job_id"},
    ),
    "repos": (("listDependencies",), {"repo_id": "$response.body#/repos/0/id"}),
}
_INTEGER = {"type": "integer", "minimum": 0}
_HEADERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "X-Request-Id": (
        "Names this request in logs; taken from the request when it sent a sane one.",
        {"type": "string"},
    ),
    "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
    "Retry-After": ("Seconds to wait before repeating the request.", _INTEGER),
    "RateLimit-Limit": ("Requests the API key may send at once.", _INTEGER),
    "RateLimit-Remaining": ("Requests left.", _INTEGER),
    "RateLimit-Reset": ("Seconds until the next request is accepted.", _INTEGER),
}
_HEADERS_OF_STATUS = {
    401: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
    503: ("Retry-After",),
}


def build_document(operations: Iterable[Operation], *, base: str) -> dict[str, Any]:
    operations = tuple(operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Agent Job Service",
            "version": "1.0",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base, "description": "This service"}],
        "security": [{"api_key": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
        "paths": _paths(operations),
        "components": {
            "schemas": _components(operations),
            "headers": {name: _header(*facts) for name, facts in _HEADERS.items()},
            "securitySchemes": {
                "api_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of the organization. Its scope is `jobs`, or "
                    "`read` for GET requests only.",
                }
            },
        },
    }


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
    if operation.parameters:
        described["parameters"] = [_parameter(each) for each in operation.parameters]
    if operation.request is not None:
        described["requestBody"] = {
            "required": True,
            "content": _json(operation.request, operation.request_example),
        }
    described["responses"] = {
        str(operation.answer.status): _answer(operation.answer),
        **_refusals((*COMMON_ERRORS, *operation.errors)),
    }
    return described


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


def _answer(answer: Answer) -> dict[str, Any]:
    content = (
        {
            media_type: {"schema": {"type": "string"}, "example": text}
            for media_type, text in answer.texts.items()
        }
        if answer.type is None
        else _json(answer.type, answer.example)
    )
    own = {name: _header(text, {"type": "string"}) for name, text in answer.headers.items()}
    described = {
        "description": answer.description,
        "headers": {**_header_references(("X-Request-Id",)), **own},
        "content": content,
    }
    links = _links(answer)
    return {**described, "links": links} if links else described


def _links(answer: Answer) -> dict[str, Any]:
    """Where the identifiers in an answer lead."""
    fields = getattr(answer.type, "__struct_fields__", ())
    return {
        name: {"operationId": name, "parameters": dict(parameters)}
        for field, (names, parameters) in _LINKS.items()
        if field in fields
        for name in names
    }


def _refusals(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS_OF[code], []).append(code)
    return {str(status): _refusal(status, by_status[status]) for status in sorted(by_status)}


def _refusal(status: int, codes: list[str]) -> dict[str, Any]:
    names = ("X-Request-Id", *_HEADERS_OF_STATUS.get(status, ()))
    return {
        "description": "\n".join(f"- `{code}`: {ERROR_MEANINGS[code]}" for code in codes),
        "headers": _header_references(names),
        "content": {
            "application/json": {
                "schema": {"$ref": f"{_REFERENCE}ErrorAnswer"},
                "examples": {code: {"value": error_example(code)} for code in codes},
            }
        },
    }


def _header_references(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "schema": dict(schema)}


def _json(type_: Any, example: Any) -> dict[str, Any]:
    name = _PUBLIC_NAMES.get(type_.__name__, type_.__name__)
    return {"application/json": {"schema": {"$ref": _REFERENCE + name}, "example": example}}


def _components(operations: Iterable[Operation]) -> dict[str, Any]:
    types = [each.answer.type for each in operations] + [each.request for each in operations]
    named = [each for each in types if each is not None]
    _, found = msgspec.json.schema_components(
        [*dict.fromkeys(named), Payload, ErrorBody], ref_template=_REFERENCE + "{name}"
    )
    renamed = {_PUBLIC_NAMES.get(name, name): schema for name, schema in found.items()}
    return {name: _component(name, renamed[name]) for name in sorted(renamed)}


def _component(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    notes = FIELD_NOTES.get(name, {})
    properties = {
        field: {**_simplified(facts), **notes.get(field, {})}
        for field, facts in schema["properties"].items()
    }
    if name == "Error":
        # Left out rather than null, so the type's own union does not describe it.
        properties["details"] = dict(notes["details"])
    return {"type": "object", "properties": properties, "required": schema.get("required", [])}


def _simplified(schema: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` a type and null as one list of types, and references by their public names."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return {"$ref": _REFERENCE + _PUBLIC_NAMES.get(name, name)}
    if "items" in schema:
        schema["items"] = _simplified(schema["items"])
    options = schema.get("anyOf", [])
    if len(options) == 2 and options[1] == {"type": "null"} and "type" in options[0]:
        return {**options[0], "type": [options[0]["type"], "null"]}
    if options:
        schema["anyOf"] = [_simplified(option) for option in options]
    return schema
