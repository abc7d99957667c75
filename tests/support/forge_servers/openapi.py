"""Operations out of an OpenAPI 3 or Swagger 2 document; only those that are asked for."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.forge_servers.description import Operation
from tests.support.forge_servers.schema import Schema

Document = Mapping[str, Any]


def extract_operations(path: Path, names: Iterable[str]) -> Document:
    """The document with these operations and what they refer to: GitHub's whole has 13 MB."""
    told: Document = json.loads(path.read_bytes())
    paths = {name.partition(" ")[2] for name in names}
    part: dict[str, Any] = {"paths": {one: told["paths"][one] for one in paths}}
    waiting: list[Any] = [part["paths"]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                waiting += _copy_reference(told, part, value["$ref"])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return part


def operations(told: Document, names: Iterable[str]) -> Iterator[Operation]:
    """`names` such as "GET /user". Raises KeyError for one that is not described."""
    for name in names:
        method, path = name.split(" ")
        yield _operation(told, method, path)


def _operation(told: Document, method: str, path: str) -> Operation:
    item = told["paths"][path]
    operation = item[method.lower()]
    resolve = partial(_resolve, told)
    given = [
        resolve(one) for one in [*item.get("parameters", ()), *operation.get("parameters", ())]
    ]
    query = [one for one in given if one["in"] == "query"]
    body = _body(operation, given, resolve)
    return Operation(
        method,
        path,
        {one["name"]: one.get("schema", one) for one in query},
        frozenset(one["name"] for one in query if one.get("required")),
        body,
        bool(body and resolve(body).get("required")),
        _answer(operation, resolve),
        resolve,
    )


def _body(operation: Document, given: list[Any], resolve: "partial[Schema]") -> Schema | None:
    for one in given:
        if one["in"] == "body":
            return resolve(one["schema"])
    content = resolve(operation.get("requestBody", {})).get("content", {})
    return content["application/json"]["schema"] if "application/json" in content else None


def _answer(operation: Document, resolve: "partial[Schema]") -> Schema | None:
    for status, told in operation["responses"].items():
        if status.startswith("2"):
            response = resolve(told)
            content = response.get("content", {}).get("application/json", response)
            schema: Schema | None = content.get("schema")
            return schema
    return None


def _resolve(told: Document, schema: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = told
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
        schema = found
    return schema


def _copy_reference(told: Document, part: dict[str, Any], reference: str) -> list[Any]:
    """What the reference leads to, unless it is there already."""
    *places, name = reference.removeprefix("#/").split("/")
    for place in places:
        told, part = told[place], part.setdefault(place, {})
    if name in part:
        return []
    part[name] = told[name]
    return [told[name]]
