"""The requested operations of an OpenAPI 3 or Swagger 2 document."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.forge_servers.description import Operation
from tests.support.forge_servers.schema import Schema

Document = Mapping[str, Any]


def extract_operations(path: Path, names: Iterable[str]) -> Document:
    """The document reduced to these operations and their references: GitHub's has 13 MB."""
    document: Document = json.loads(path.read_bytes())
    paths = {name.partition(" ")[2] for name in names}
    part: dict[str, Any] = {"paths": {path: document["paths"][path] for path in paths}}
    pending: list[Any] = [part["paths"]]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                pending += _copy_reference(document, part, value["$ref"])
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return part


def operations(document: Document, names: Iterable[str]) -> Iterator[Operation]:
    """`names` such as "GET /user". Raises KeyError for a name that is not described."""
    for name in names:
        method, path = name.split(" ")
        yield _operation(document, method, path)


def _operation(document: Document, method: str, path: str) -> Operation:
    item = document["paths"][path]
    operation = item[method.lower()]
    resolve = partial(_resolve, document)
    parameters = [
        resolve(parameter)
        for parameter in [*item.get("parameters", ()), *operation.get("parameters", ())]
    ]
    query = [parameter for parameter in parameters if parameter["in"] == "query"]
    body = _body(operation, parameters, resolve)
    return Operation(
        method,
        path,
        {parameter["name"]: parameter.get("schema", parameter) for parameter in query},
        frozenset(parameter["name"] for parameter in query if parameter.get("required")),
        body,
        bool(body and resolve(body).get("required")),
        _response_schema(operation, resolve),
        resolve,
    )


def _body(operation: Document, parameters: list[Any], resolve: "partial[Schema]") -> Schema | None:
    for parameter in parameters:
        if parameter["in"] == "body":
            return resolve(parameter["schema"])
    content = resolve(operation.get("requestBody", {})).get("content", {})
    return content["application/json"]["schema"] if "application/json" in content else None


def _response_schema(operation: Document, resolve: "partial[Schema]") -> Schema | None:
    for status, value in operation["responses"].items():
        if status.startswith("2"):
            response = resolve(value)
            content = response.get("content", {}).get("application/json", response)
            schema: Schema | None = content.get("schema")
            return schema
    return None


def _resolve(document: Document, schema: Schema) -> Schema:
    while "$ref" in schema:
        target: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        schema = target
    return schema


def _copy_reference(document: Document, part: dict[str, Any], reference: str) -> list[Any]:
    """Copy the target of the reference, unless `part` already contains it."""
    *parents, name = reference.removeprefix("#/").split("/")
    for parent in parents:
        document, part = document[parent], part.setdefault(parent, {})
    if name in part:
        return []
    part[name] = document[name]
    return [document[name]]
