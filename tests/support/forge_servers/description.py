"""A platform's published API as a list of operations, and the validation of requests.

An operation in a file of `descriptions/`:
    {"method": "POST", "path": "/projects/{id}/notes",
     "query": {"page": "integer"},
     "body": {"text": {"type": "string", "required": true}, "labels": "array"},
     "response": {"id": "integer"}}
A type alone is short for {"type": …}; other keywords are those of JSON Schema (enum, items,
properties, nullable). An operation without `body` accepts none. `response` is optional: the object
of a successful response, or an element of its list; it validates the contract server itself.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.forge_servers.schema import Resolve, Schema, faults, identity, text_fault

DESCRIPTIONS = Path(__file__).parent / "descriptions"
_PLACEHOLDER = re.compile(r"\{[^{}]+\}")


@dataclass(frozen=True)
class Operation:
    """`body` is None if no body is allowed; `response` is None if the response is not described."""

    method: str
    path: str
    query: Mapping[str, Schema] = field(default_factory=dict)
    required_query: frozenset[str] = frozenset()
    body: Schema | None = None
    needs_body: bool = False
    response: Schema | None = None
    resolve: Resolve = identity

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def request_faults(self, query: Iterable[tuple[str, str]], body: object) -> Iterator[str]:
        pairs = list(query)
        for name, value in pairs:
            if name not in self.query:
                yield f"the query parameter {name!r} is not described"
            elif fault := text_fault(value, self.resolve(self.query[name])):
                yield f"the query parameter {name!r} {fault}"
        for name in sorted(self.required_query - {name for name, _ in pairs}):
            yield f"the query parameter {name!r} is missing"
        yield from self._body_faults(body)

    def response_faults(self, content: object) -> Iterator[str]:
        """The server's response may lack fields, but must not contradict the description."""
        if self.response is not None and content is not None:
            yield from faults(content, self.response, "the response", self.resolve, complete=False)

    def _body_faults(self, body: object) -> Iterator[str]:
        if body is None:
            if self.needs_body:
                yield "the body is missing"
        elif self.body is None:
            yield "a body is not described"
        else:
            yield from faults(body, self.body, "body", self.resolve)


@dataclass(frozen=True)
class Match:
    operation: Operation
    values: Mapping[str, str]


class Description:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self._routes = [(_pattern(operation.path), operation) for operation in operations]
        # Literal paths match before placeholders: /user/repos before /user/{id}.
        self._routes.sort(key=lambda route: route[1].path.count("{"))

    @classmethod
    def read(cls, name: str) -> "Description":
        """From `descriptions/<name>.json`: {"about": …, "operations": […]}."""
        document = json.loads((DESCRIPTIONS / f"{name}.json").read_text())
        return cls(parse_operations(document["operations"]))

    def match(self, method: str, raw_path: str) -> Match | None:
        """`raw_path` is not decoded: a slash within a name is %2F."""
        for pattern, operation in self._routes:
            match = pattern.fullmatch(raw_path) if operation.method == method else None
            if match:
                names = [placeholder[1:-1] for placeholder in _PLACEHOLDER.findall(operation.path)]
                values = [unquote(value) for value in match.groups()]
                return Match(operation, dict(zip(names, values, strict=True)))
        return None


def parse_operations(operations: Iterable[Mapping[str, Any]]) -> Iterator[Operation]:
    for entry in operations:
        query = {name: _schema(schema) for name, schema in entry.get("query", {}).items()}
        body = _object(entry["body"]) if "body" in entry else None
        response = _object(entry["response"]) if "response" in entry else None
        yield Operation(
            entry["method"],
            entry["path"],
            query,
            frozenset(name for name, schema in query.items() if schema.get("required") is True),
            body,
            bool(body and body["required"]),
            response and {"anyOf": [response, {"type": "array", "items": response}]},
        )


def _object(fields: Mapping[str, Any]) -> Schema:
    properties = {name: _schema(schema) for name, schema in fields.items()}
    required = [name for name, schema in properties.items() if schema.get("required") is True]
    return {"type": "object", "properties": properties, "required": required}


def _schema(definition: str | Mapping[str, Any]) -> Schema:
    if isinstance(definition, str):
        return {"type": definition}
    schema = dict(definition)
    if "properties" in schema:
        schema |= {**_object(schema["properties"]), "nullable": schema.get("nullable", False)}
    if "items" in schema:
        schema["items"] = _schema(schema["items"])
    return schema


def _pattern(path: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in _PLACEHOLDER.split(path)]
    return re.compile("([^/]+)".join(parts))
