"""The JSON Schema of `config_override` for one agent."""

import functools
from typing import Any

import msgspec

from agentjobs.jobs.model import MAX_OVERRIDE_BYTES, ConfigOverride

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/"


def override_schema(*, timeout_seconds: float, max_cost_usd: float | None) -> dict[str, Any]:
    """The arguments are the caps that a job may lower."""
    declared = _base_schema()
    properties = dict(declared["properties"])
    _lower_maximum(properties, "timeout_seconds", int(timeout_seconds))
    if max_cost_usd is not None:
        _lower_maximum(properties, "max_cost_usd", max_cost_usd)
    return {
        "$schema": _DIALECT,
        "type": "object",
        "description": f"At most {MAX_OVERRIDE_BYTES} bytes as JSON. Keys that are not listed are "
        "passed to the agent.",
        "properties": properties,
        "additionalProperties": True,
    }


@functools.cache
def _base_schema() -> dict[str, Any]:
    schema = msgspec.json.schema(ConfigOverride)
    definition: dict[str, Any] = schema["$defs"][schema["$ref"].removeprefix(_REFERENCE)]
    return definition


def _lower_maximum(properties: dict[str, Any], name: str, cap: float) -> None:
    declared = properties[name]
    properties[name] = {**declared, "maximum": min(cap, declared["maximum"])}
