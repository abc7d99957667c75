"""The dashboard's templates: rendered beside the event loop, and what they say in them."""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment
from starlette.responses import Response

from agentjobs.clock import iso_utc
from agentjobs.settings import Settings
from agentjobs.web.dashboard.connection_errors import trouble
from agentjobs.web.dashboard.external_links import web_address
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs.web.dashboard.text_filters import FILTERS
from agentjobs.web.pages import SAFETY_HEADERS, template_environment

HEADERS: Mapping[str, str] = {
    **SAFETY_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    # With none at all a browser would send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


def prefix_of(settings: Settings) -> str:
    """What every address of ours begins with, where the service is not at a host's root."""
    return urlsplit(settings.effective_public_url).path.rstrip("/")


async def render(template: str, values: Mapping[str, Any]) -> str:
    """Beside the event loop: a large page takes its time."""
    return await asyncio.to_thread(_render, template, values)


def html_response(html: str, status: int = 200) -> Response:
    return Response(html, status_code=status, media_type="text/html", headers=HEADERS)


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = template_environment("agentjobs.web.dashboard")
    environment.filters["visible"] = visible
    environment.filters["iso"] = iso_utc
    environment.filters["web_address"] = web_address
    environment.filters["trouble"] = trouble
    environment.filters.update(FILTERS)
    return environment
