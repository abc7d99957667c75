"""The API reference, rendered from the OpenAPI document; it loads no third-party resources.

Examples for curl and the clients are on the documentation site.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any

import msgspec
from markupsafe import Markup, escape

from agentjobs.web.pages import template_environment

_PACKAGE = "agentjobs.web.api"
_REFERENCE = "#/components/schemas/"

Document = Mapping[str, Any]


def render_docs(document: Document, api_url: str) -> str:
    environment = template_environment(_PACKAGE)
    environment.filters.update(prose=prose, pretty=pretty, kind=kind)
    introduction, _, conventions = document["info"]["description"].partition("\n\n")
    return environment.get_template("docs.html").render(
        title=document["info"]["title"],
        introduction=introduction,
        conventions=conventions,
        base=document["servers"][0]["url"],
        api_url=api_url,
        operations=list(_operations(document, document["paths"])),
        webhooks=list(_operations(document, document["webhooks"])),
        about_webhooks=next(
            tag["description"] for tag in document["tags"] if tag["name"] == "Webhooks"
        ),
        schemas=document["components"]["schemas"],
    )


def stylesheet() -> bytes:
    return resources.files(_PACKAGE).joinpath("static/docs.css").read_bytes()


def prose(text: str) -> Markup:
    """A description as HTML: escaped, with `code` and paragraphs."""
    return Markup("").join(
        Markup("<p>{}</p>").format(_with_code(part)) for part in text.strip().split("\n\n")
    )


def pretty(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def kind(schema: Mapping[str, Any]) -> Markup:
    """A short form of a type, linked to the component it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return Markup('<a href="#schema-{0}">{0}</a>').format(name)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return Markup(" or ").join(kind(option) for option in schema[union])
    if "enum" in schema:
        return _codes(schema["enum"])
    if "x-extensible-enum" in schema:
        return Markup("{}, or newer values").format(_codes(schema["x-extensible-enum"]))
    types = schema.get("type", "any")
    names = types if isinstance(types, str) else " or ".join(types)
    if names == "array":
        return Markup("array of {}").format(kind(schema.get("items", {})))
    return escape(names)


def _codes(values: Iterable[str]) -> Markup:
    return Markup(" | ").join(Markup("<code>{}</code>").format(value) for value in values)


def _with_code(text: str) -> Markup:
    # Every second part was between backticks.
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece)
        for index, piece in enumerate(pieces)
    )


def _operations(document: Document, paths: Document) -> Iterator[dict[str, Any]]:
    """The operations of paths, or of webhooks, each with the rows of its table of responses."""
    for path, methods in paths.items():
        for method, operation in methods.items():
            rows = list(_responses(document, operation["responses"]))
            yield {**operation, "path": path, "method": method.upper(), "rows": rows}


def _responses(document: Document, responses: Document) -> Iterator[tuple[str, Markup, str]]:
    """Status, type or error code, and meaning."""
    for status, response in responses.items():
        resolved = _resolve(document, response)
        for content in resolved.get("content", {"": {}}).values():
            errors = content.get("examples", {})
            for code, example in errors.items():
                yield status, _codes([code]), example["value"]["error"]["message"]
            if not errors:
                schema = kind(content["schema"]) if content else Markup()
                yield status, schema, resolved["description"]


def _resolve(document: Document, response: Document) -> Document:
    """The response itself, or the shared one that it refers to."""
    if "$ref" not in response:
        return response
    shared: Document = document["components"]["responses"]
    return dict(shared[response["$ref"].rpartition("/")[2]])
