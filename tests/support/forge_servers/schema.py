"""Validates a JSON value against a description: a small part of JSON Schema, but a field that the
description does not name is a fault."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def identity(schema: Schema) -> Schema:
    return schema


def faults(
    value: object,
    schema: Schema,
    where: str,
    resolve: Resolve = identity,
    *,
    complete: bool = True,
) -> Iterator[str]:
    """One sentence per fault. `complete`: required fields must be present."""
    schema = resolve(schema)
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if choices:
        problems = [
            list(faults(value, choice, where, resolve, complete=complete)) for choice in choices
        ]
        if all(problems):
            yield from min(problems, key=len)
        return
    if schema.get("allOf"):
        schema = _merge(schema, resolve)
    if value is None and (schema.get("nullable") or "null" in _names(schema)):
        return
    if not _is_of_type(value, _names(schema)):
        yield f"{where} should be {' or '.join(_names(schema))}, not {type(value).__name__}"
    elif schema.get("enum") and value not in schema["enum"]:
        yield f"{where} should be one of {schema['enum']}, not {value!r}"
    elif isinstance(value, dict) and schema.get("properties"):
        yield from _object_faults(value, schema, where, resolve, complete)
    elif isinstance(value, list) and schema.get("items"):
        for index, item in enumerate(value):
            yield from faults(
                item, schema["items"], f"{where}[{index}]", resolve, complete=complete
            )


def text_fault(value: str, schema: Schema) -> str | None:
    """The fault of a query value, where everything is text."""
    names = _names(schema)
    if schema.get("enum") and value not in [str(choice) for choice in schema["enum"]]:
        return f"should be one of {schema['enum']}, not {value!r}"
    if names == ["integer"] and not value.removeprefix("-").isdigit():
        return f"should be a whole number, not {value!r}"
    if names == ["boolean"] and value not in ("true", "false"):
        return f"should be true or false, not {value!r}"
    return None


def _object_faults(
    value: dict[str, object], schema: Schema, where: str, resolve: Resolve, complete: bool
) -> Iterator[str]:
    properties = schema["properties"]
    for name in schema.get("required", ()) if complete else ():
        if name not in value:
            yield f"{where}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from faults(item, properties[name], f"{where}.{name}", resolve, complete=complete)
        elif not schema.get("additionalProperties"):
            yield f"{where}.{name} is not described"


def _merge(schema: Schema, resolve: Resolve) -> Schema:
    merged: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    for part in [*map(resolve, schema["allOf"]), {**schema, "allOf": None}]:
        whole = _merge(part, resolve) if part.get("allOf") else part
        merged["properties"] |= whole.get("properties", {})
        merged["required"] += whole.get("required", [])
    merged["nullable"] = schema.get("nullable", False)
    return merged


def _names(schema: Schema) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _is_of_type(value: object, names: list[str]) -> bool:
    known = [name for name in names if name in _TYPES]
    if not known:
        return True
    if isinstance(value, bool):
        return "boolean" in known
    return any(isinstance(value, _TYPES[name]) for name in known)
