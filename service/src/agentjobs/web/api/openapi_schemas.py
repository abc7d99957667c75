"""The schemas of the OpenAPI document, built from the types of requests and responses."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agentjobs.web.api.errors import ErrorBody
from agentjobs.web.api.operation import Operation
from agentjobs.webhooks.events import Payload

_NULL = {"type": "null"}
_REFERENCE = "#/components/schemas/"
# Types whose public name is not the name in the code without `View`.
_PUBLIC_NAMES = {
    "EnvironmentView": "JobEnvironment",
    "PhaseView": "JobPhase",
    "StepView": "JobStep",
    "StepList": "JobStepList",
    "KeyView": "ApiKey",
    "RepoView": "Repository",
    "DependencyDocument": "Dependency",
    "Payload": "WebhookPayload",
    "ErrorBody": "ErrorResponse",
    "ErrorFields": "Error",
}
# The schema for responses that have no warnings of their own.
_WARNINGS: Mapping[str, Any] = {
    "description": "What the service ignored in the request.",
    "type": "array",
    "items": {"type": "string"},
}


def reference_to(type_: type) -> dict[str, str]:
    return {"$ref": _REFERENCE + _public_name(type_.__name__)}


def build_schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    requests = _schemas(operation.request for operation in operations)
    # A newer service may send values that this document does not know.
    responses = _allow_unknown_values(
        _schemas(
            [*(operation.response.type for operation in operations), Payload, ErrorBody],
            is_sent=True,
        )
    )
    components = {**requests, **responses}
    sent = [operation.response.type for operation in operations if operation.response.type]
    for name in {_public_name(type_.__name__) for type_ in sent}:
        components[name]["properties"].setdefault("warnings", _WARNINGS)
    # Generated clients would otherwise drop the keys that only the agent knows.
    components["ConfigOverride"]["additionalProperties"] = True
    for name in ("Event", "OrganizationEvent"):
        components[name]["properties"]["payload"] |= reference_to(Payload)
    return {name: components[name] for name in sorted(components)}


def _public_name(name: str) -> str:
    return _PUBLIC_NAMES.get(name, name.removesuffix("View"))


def _schemas(types: Iterable[Any], *, is_sent: bool = False) -> dict[str, Any]:
    """A field with a default is optional in a request, but always part of a response."""
    named = dict.fromkeys(kind for kind in types if kind is not None)
    _, components = msgspec.json.schema_components(named, ref_template=_REFERENCE + "{name}")
    return {
        _public_name(name): {
            "type": "object",
            "properties": {key: _simplify(value) for key, value in schema["properties"].items()},
            "required": [
                key
                for key, value in schema["properties"].items()
                if key in schema["required"] or (is_sent and "default" in value)
            ],
        }
        for name, schema in components.items()
    }


def _simplify(schema: dict[str, Any]) -> dict[str, Any]:
    """A type or null as one list of types, and references by their public names."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return {**schema, "$ref": _REFERENCE + _public_name(name)}
    if "items" in schema:
        schema["items"] = _simplify(schema["items"])
    options = schema.get("anyOf", [])
    if len(options) == 2 and options[1] == _NULL and "type" in options[0]:
        del schema["anyOf"]
        return {**options[0], **schema, "type": [options[0]["type"], "null"]}
    if options:
        schema["anyOf"] = [_simplify(option) for option in options]
    return schema


def _allow_unknown_values(schema: Any) -> Any:
    """A schema with its enumerations as extensible lists."""
    if isinstance(schema, list):
        return [_allow_unknown_values(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    opened = {key: _allow_unknown_values(value) for key, value in schema.items()}
    if isinstance(opened.get("enum"), list):
        opened |= {"type": "string", "x-extensible-enum": opened.pop("enum")}
    return opened
