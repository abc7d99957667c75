"""Checks JSON Schemas, and JSON documents against them.

Documents are checked in a process of their own that can be killed: even a careful schema may take
exponential time on a document that was made for it.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentjobs_runtime.json_nesting import MAX_NESTING, nests_too_deep
from agentjobs_runtime.safe_text import ellipsize

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TOO_DEEP = f"it nests deeper than {MAX_NESTING} levels"
_MAX_FAULTS = 5
_MAX_FAULT_CHARACTERS = 300


class CheckRequest(msgspec.Struct, frozen=True):
    schema: dict[str, Any]
    content: bytes


def main() -> None:
    """The process: a request on stdin, the faults on stdout."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=CheckRequest)
    sys.stdout.buffer.write(msgspec.msgpack.encode(find_faults(request)))


def find_faults(request: CheckRequest) -> list[str]:
    """The first faults; none if the document fits."""
    try:
        document = msgspec.json.decode(request.content)
        if nests_too_deep(document, request.content):
            return [_TOO_DEEP]
        # An empty registry: references never lead to the network.
        validator = Draft202012Validator(request.schema, registry=Registry())
        errors = itertools.islice(validator.iter_errors(document), _MAX_FAULTS)
        return [_shorten(f"{error.json_path}: {error.message}") for error in errors]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [_shorten(f"it is not JSON: {error}")]
    except RecursionError:
        return [_TOO_DEEP]


def check_schema(schema: dict[str, Any]) -> None:
    """Raises ValueError; the reason continues the name of the setting."""
    if schema.get("$schema", _DIALECT) != _DIALECT:
        raise ValueError(f"must be a schema of {_DIALECT}")
    try:
        Draft202012Validator.check_schema(schema)
        _check_references(schema)
    except SchemaError as error:
        reason = _shorten(f"{error.json_path}: {error.message}")
        raise ValueError(f"is not a valid JSON Schema: {reason}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _check_references(schema: dict[str, Any]) -> None:
    resource = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"refers to `{reference}`, which it does not contain") from None


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key in ("$ref", "$dynamicRef"):
            if isinstance(value.get(key), str):
                yield value[key]
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _references(child)


def _shorten(text: str) -> str:
    return ellipsize(text, _MAX_FAULT_CHARACTERS)
