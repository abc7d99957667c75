"""Serves the OpenAPI document, the API reference and its stylesheet, without authentication.

The reference is rendered from the document and loads no third-party resources. Examples for curl
and the clients are on the documentation site.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import resources
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.web.api.headers import header
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS
from agentjobs.web.pages import SAFETY_HEADERS, template_environment
from agentjobs_runtime.settings import Settings

_PACKAGE = "agentjobs.web.api"
_REFERENCE = "#/components/schemas/"
# What descriptions consist of.
_MARKDOWN = MarkdownIt("zero").enable(["backticks", "list"])

Document = Mapping[str, Any]


class Page:
    """Built on the first request and cached; supports conditional requests."""

    def __init__(self, media_type: str, build: Callable[[], bytes]) -> None:
        self._media_type = media_type
        self._build = build
        self._page: tuple[bytes, str] | None = None

    async def show(self, request: Request) -> Response:
        if self._page is None:
            body = self._build()
            self._page = (body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        body, tag = self._page
        headers = {**SAFETY_HEADERS, "Cache-Control": "no-cache", "ETag": tag}
        if header(request.scope, b"if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=self._media_type)


def routes(settings: Settings) -> list[BaseRoute]:
    pages = {
        "/openapi.json": Page("application/json", partial(_document, settings)),
        "/docs": Page("text/html", partial(_reference, settings)),
        "/docs.css": Page("text/css", _stylesheet),
    }
    return [Route(BASE + path, page.show) for path, page in pages.items()]


def _document(settings: Settings) -> bytes:
    return msgspec.json.encode(build_document(OPERATIONS, base=settings.public_path + BASE))


def _reference(settings: Settings) -> bytes:
    document = build_document(OPERATIONS, base=settings.public_path + BASE)
    return _render(document, settings.effective_public_url + BASE).encode()


def _render(document: Document, api_url: str) -> str:
    environment = template_environment(_PACKAGE)
    environment.filters.update(prose=_prose, pretty=_pretty, kind=_kind)
    introduction, _, conventions = document["info"]["description"].partition("\n\n")
    return environment.get_template("docs.html").render(
        title=document["info"]["title"],
        introduction=introduction,
        conventions=conventions,
        base=document["servers"][0]["url"],
        api_url=api_url,
        operations=list(_operations(document["paths"])),
        webhooks=list(_operations(document["webhooks"])),
        about_webhooks=next(
            tag["description"] for tag in document["tags"] if tag["name"] == "Webhooks"
        ),
        components=document["components"],
    )


def _stylesheet() -> bytes:
    return resources.files(_PACKAGE).joinpath("static/docs.css").read_bytes()


def _prose(text: str) -> Markup:
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - the renderer escapes


def _pretty(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _kind(schema: Mapping[str, Any]) -> Markup:
    """A short form of a type, linked to the component it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return Markup('<a href="#schema-{0}">{0}</a>').format(name)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return Markup(" or ").join(_kind(option) for option in schema[union])
    if "enum" in schema:
        return _codes(schema["enum"])
    if "x-extensible-enum" in schema:
        return Markup("{}, or newer values").format(_codes(schema["x-extensible-enum"]))
    types = schema.get("type", "any")
    names = types if isinstance(types, str) else " or ".join(types)
    if names == "array":
        return Markup("array of {}").format(_kind(schema.get("items", {})))
    return escape(names)


def _codes(values: Iterable[str]) -> Markup:
    return Markup(" | ").join(Markup("<code>{}</code>").format(value) for value in values)


def _operations(paths: Document) -> Iterator[dict[str, Any]]:
    """The operations of paths, or of webhooks."""
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield {**operation, "path": path, "method": method.upper()}
