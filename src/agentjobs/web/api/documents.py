"""Where the API describes itself: for machines, for people, and the stylesheet of the latter.

Open to everyone: nothing here belongs to an organization.
"""

import hashlib
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agentjobs.web.api.docs_page import render_docs, stylesheet
from agentjobs.web.api.headers import header
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS
from agentjobs.web.pages import SAFETY_HEADERS


class Page:
    """Made when it is first asked for, then kept; a client that has it is told so."""

    def __init__(self, media_type: str, make: Callable[[], bytes]) -> None:
        self._media_type = media_type
        self._make = make
        self._made: tuple[bytes, str] | None = None

    async def show(self, request: Request) -> Response:
        if self._made is None:
            body = self._make()
            self._made = (body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        body, tag = self._made
        headers = {**SAFETY_HEADERS, "Cache-Control": "no-cache", "ETag": tag}
        if header(request.scope, b"if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=self._media_type)


def routes() -> list[BaseRoute]:
    pages = {
        "/openapi.json": Page("application/json", _document),
        "/docs": Page("text/html", _docs),
        "/docs.css": Page("text/css", stylesheet),
    }
    return [Route(BASE + path, page.show) for path, page in pages.items()]


def _document() -> bytes:
    return msgspec.json.encode(build_document(OPERATIONS, base=BASE))


def _docs() -> bytes:
    return render_docs(build_document(OPERATIONS, base=BASE)).encode()
