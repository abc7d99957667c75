"""The OpenAPI 3.1 document, built from the operations and their types."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from agentjobs.web.api.deprecation import deprecation_fields
from agentjobs.web.api.examples import QUERY_VALUES
from agentjobs.web.api.openapi_responses import (
    build_responses,
    json_content,
    shared_headers,
    shared_responses,
)
from agentjobs.web.api.openapi_schemas import build_schemas, reference_to
from agentjobs.web.api.openapi_webhooks import TAG, TAG_DESCRIPTION, build_webhooks
from agentjobs.web.api.operation import TAG_DESCRIPTIONS, Operation, Parameter
from agentjobs.webhooks.events import Payload

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
            "headers": shared_headers(),
            "responses": shared_responses(),
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
    used = dict.fromkeys(operation.tag for operation in operations)
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
    described |= deprecation_fields(operation.id, operation.description)
    parameters = [*map(_parameter, operation.all_parameters), *_query_parameters(operation)]
    if parameters:
        described["parameters"] = parameters
    if operation.request is not None:
        described["requestBody"] = {
            "required": any(field.required for field in structs.fields(operation.request)),
            "content": json_content(operation.request, operation.request_example),
        }
    described["responses"] = build_responses(operation)
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


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    type_ = operation.query
    if type_ is None:
        return []
    _, components = msgspec.json.schema_components([type_])
    return [
        _query_parameter(operation.id, name, _without_null(field))
        for name, field in components[type_.__name__]["properties"].items()
    ]


def _query_parameter(operation_id: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
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
        described["schema"] = _prefix_properties(schema, name)
    if name in QUERY_VALUES:
        described["example"] = QUERY_VALUES[name]
    return described | deprecation_fields(f"{operation_id}?{name}", described["description"])


def _prefix_properties(schema: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    pattern = schema["propertyNames"]["pattern"].removeprefix("^")
    return {**schema, "propertyNames": {"pattern": f"^{prefix}\\.{pattern}"}}


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An absent parameter has no value; null, or nothing, is only its default in the code."""
    schema = dict(schema)
    if schema.get("default") in (None, [], {}):
        schema.pop("default", None)
    options = schema.pop("anyOf", [])
    schema = {**next((option for option in options if option != _NULL), {}), **schema}
    if "items" in schema:
        schema["items"] = _without_null(schema["items"])
    return {"type": "string", **schema} if "enum" in schema else schema
