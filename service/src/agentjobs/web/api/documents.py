"""Serves the OpenAPI document, the API reference and its stylesheet, without authentication."""

import hashlib
from collections.abc import Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.web.api.docs_page import render_docs, stylesheet
from agentjobs.web.api.headers import header
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS
from agentjobs.web.pages import SAFETY_HEADERS
from agentjobs_runtime.settings import Settings


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
        "/docs": Page("text/html", partial(_docs, settings)),
        "/docs.css": Page("text/css", stylesheet),
    }
    return [Route(BASE + path, page.show) for path, page in pages.items()]


def _document(settings: Settings) -> bytes:
    return msgspec.json.encode(build_document(OPERATIONS, base=settings.public_path + BASE))


def _docs(settings: Settings) -> bytes:
    document = build_document(OPERATIONS, base=settings.public_path + BASE)
    return render_docs(document, settings.effective_public_url + BASE).encode()
