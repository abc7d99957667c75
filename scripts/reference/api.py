"""The reference of the API, from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scripts.reference.curl_examples import curl_example
from scripts.reference.examples import (
    CALLS,
    Document,
    Operation,
    curl,
    operations_of,
    python,
    typescript,
)
from scripts.reference.markdown import cell, code_block, details, slug, tabs

_REFERENCE = "#/components/schemas/"


def render_api(document: Document) -> dict[str, str]:
    """The pages by their names."""
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    operations = operations_of(document)
    if missing := operations.keys() ^ CALLS.keys():
        raise ValueError(f"examples.CALLS must list exactly the operations: {sorted(missing)}")
    by_tag: dict[str, list[Operation]] = {name: [] for name in tags}
    for name in CALLS:
        by_tag[operations[name].details["tags"][0]].append(operations[name])
    pages = {
        f"{slug(tag)}.md": _tag_page(document, tag, tags[tag], group)
        for tag, group in by_tag.items()
        if group
    }
    pages["index.md"] = _index_page(document, by_tag)
    pages["webhooks.md"] = _webhooks_page(document, tags["Webhooks"])
    pages["objects.md"] = _objects_page(document)
    return pages


def _index_page(document: Document, by_tag: Mapping[str, list[Operation]]) -> str:
    rows = "\n".join(
        f"| [{each.details['summary']}]({slug(tag)}.md#{slug(each.details['summary'])}) "
        f"| `{each.method} {each.path}` |"
        for tag, group in by_tag.items()
        for each in group
    )
    errors = "\n".join(
        f"| {status} | `{code}` | {cell(message)} |"
        for (status, code), message in sorted(_errors(document).items())
    )
    return f"""# API reference

The base URL ends with `/v1`: `http://127.0.0.1:8080/v1` with `agentjobs up`. Every request needs an
API key. The examples use two variables, which both clients and the command line read too:

{code_block("sh", FIRST_CALL)}

The examples in Python and TypeScript continue these programs:

{tabs({"Python": ("python", PYTHON_CLIENT), "TypeScript": ("ts", TYPESCRIPT_CLIENT)})}

[Working with the API](../../api.md) shows how the operations fit together. A running service has
its reference at `/v1/docs`, and the OpenAPI document at `/v1/openapi.json`.

{document["info"]["description"].strip()}

## Operations

| operation | request |
|---|---|
{rows}

## Error codes

| status | code | meaning |
|---|---|---|
{errors}
"""


FIRST_CALL = f"""\
export AGENTJOBS_URL=http://127.0.0.1:8080/v1
export AGENTJOBS_API_KEY=$(agentjobs keys create --name docs)

{curl_example("GET", "/me", {})}"""

PYTHON_CLIENT = """\
from agentjobs_client import Client

client = Client.from_environment()"""

TYPESCRIPT_CLIENT = """\
import { AgentJobs } from "@agentjobs/client";

const client = AgentJobs.fromEnvironment();"""


def _tag_page(document: Document, tag: str, description: str, group: list[Operation]) -> str:
    parts = [f"# {tag}\n\n{description.strip()}\n"]
    parts.extend(_operation(document, each) for each in group)
    return "\n".join(parts)


def _operation(document: Document, operation: Operation) -> str:
    details_of = operation.details
    parts = [
        f"## {details_of['summary']}",
        f"`{operation.method} {operation.path}`",
        details_of["description"].strip(),
        tabs(
            {
                "curl": ("sh", curl(operation)),
                "Python": ("python", python(operation)),
                "TypeScript": ("ts", typescript(operation)),
            }
        ),
    ]
    parameters = [
        f"| `{each['name']}` | {each['in']} | {kind(each['schema'])} "
        f"| {cell(each.get('description', ''))} |"
        for each in details_of.get("parameters", ())
    ]
    if parameters:
        parts.append(
            "\n".join(["| parameter | in | type | meaning |", "|---|---|---|---|", *parameters])
        )
    body = details_of.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        parts += ["**Body**", _fields(_resolve(document, body["schema"]))]
    parts += _responses(document, operation)
    return "\n\n".join(parts) + "\n"


def _responses(document: Document, operation: Operation) -> Iterator[str]:
    status, response = operation.success
    yield f"**Response {status}**: {response['description']}"
    for media_type, content in response.get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            yield f"An object {kind(schema)}."
        if "example" in content:
            example = content["example"]
            language = "json" if media_type == "application/json" else "text"
            text = example if isinstance(example, str) else _pretty(example)
            yield details(f"Example, {media_type}", code_block(language, text.rstrip("\n")))
    codes = [f"`{code}` ({status})" for status, code in _errors_of(document, operation)]
    if codes:
        yield f"**Errors**: {', '.join(codes)}; see [error codes](index.md#error-codes)."


def _webhooks_page(document: Document, description: str) -> str:
    parts = [f"# Webhook events\n\n{description.strip()}\n"]
    for event, methods in document["webhooks"].items():
        request = methods["post"]
        body = request["requestBody"]["content"]["application/json"]
        parts.append(f"## `{event}`\n\n{request.get('description', request['summary']).strip()}\n")
        if "example" in body:
            parts.append(code_block("json", _pretty(body["example"])) + "\n")
        parts.append(f"The body is an object {kind(body['schema'])}.\n")
    return "\n".join(parts)


def _objects_page(document: Document) -> str:
    parts = [
        "# Objects\n\nWhat requests and responses contain. Responses may have further fields.\n"
    ]
    for name, schema in document["components"]["schemas"].items():
        description = schema.get("description", "").strip()
        parts.append(f"## {name}\n\n{description}\n\n{_fields(schema)}\n")
    return "\n".join(parts)


def _fields(schema: Document) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {kind(field)}{', required' if name in required else ''} "
        f"| {cell(field.get('description', ''))} |"
        for name, field in schema.get("properties", {}).items()
    ]
    if not rows:
        return ""
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def kind(schema: Document) -> str:
    """A short form of a type, which links to the object that it names."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](objects.md#{name.lower()})"
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(kind(each) for each in options)
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "x-extensible-enum" in schema:
        values = ", ".join(f"`{each}`" for each in schema["x-extensible-enum"])
        return f"{values}, or newer values"
    types = schema.get("type", "any")
    name = types if isinstance(types, str) else " or ".join(types)
    return f"array of {kind(schema.get('items', {}))}" if name == "array" else name


def _resolve(document: Document, schema: Document) -> Document:
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    resolved: Document = document["components"]["schemas"][name] if name else schema
    return resolved


def _errors(document: Document) -> dict[tuple[str, str], str]:
    errors: dict[tuple[str, str], str] = {}
    for operation in operations_of(document).values():
        errors |= _errors_of(document, operation)
    return errors


def _errors_of(document: Document, operation: Operation) -> dict[tuple[str, str], str]:
    """Messages by status and code."""
    errors = {}
    for status, response in operation.details["responses"].items():
        if status.startswith("2"):
            continue
        name = response.get("$ref", "").rpartition("/")[2]
        resolved = document["components"]["responses"][name] if name else response
        content = resolved.get("content", {}).get("application/json", {})
        examples = [each["value"] for each in content.get("examples", {}).values()]
        for example in [*examples, content.get("example")]:
            if example:
                errors[status, example["error"]["code"]] = example["error"]["message"]
    return errors


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
