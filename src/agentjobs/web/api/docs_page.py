"""The API reference, rendered from the OpenAPI document; it loads no third-party resources."""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import msgspec
from markupsafe import Markup, escape

from agentjobs.web.api.curl_examples import curl_example
from agentjobs.web.pages import template_environment

_PACKAGE = "agentjobs.web.api"
_REFERENCE = "#/components/schemas/"

Document = Mapping[str, Any]


def render_docs(document: Document, api_url: str) -> str:
    environment = template_environment(_PACKAGE)
    environment.filters["prose"] = prose
    environment.filters["pretty"] = pretty
    environment.filters["kind"] = kind
    introduction, _, conventions = document["info"]["description"].partition("\n\n")
    return environment.get_template("docs.html").render(
        document=document,
        introduction=introduction,
        conventions=conventions,
        base=document["servers"][0]["url"],
        api_url=api_url,
        first_call=curl_example("GET", "/me", {}),
        groups=_groups(document),
        webhooks=[
            {"event": event, **methods["post"]} for event, methods in document["webhooks"].items()
        ],
        tags={tag["name"]: tag["description"] for tag in document["tags"]},
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
    return Markup(" | ").join(Markup("<code>{}</code>").format(each) for each in values)


def _with_code(text: str) -> Markup:
    # Every second part was between backticks.
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece)
        for index, piece in enumerate(pieces)
    )


def _groups(document: Document) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            responses = {
                status: _resolve(document, response)
                for status, response in operation["responses"].items()
            }
            entry = {
                **operation,
                "path": path,
                "method": method.upper(),
                "responses": responses,
                "curl": curl_example(method.upper(), path, operation),
            }
            groups.setdefault(operation["tags"][0], []).append(entry)
    return groups


def _resolve(document: Document, response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response itself, or the shared one that it refers to."""
    if "$ref" not in response:
        return response
    resolved: Mapping[str, Any] = document["components"]["responses"][
        response["$ref"].rpartition("/")[2]
    ]
    return resolved
