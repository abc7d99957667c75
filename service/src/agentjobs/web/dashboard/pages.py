"""Renders the dashboard's templates, and the response headers of its pages."""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment
from starlette.responses import Response

from agentjobs.web.dashboard.jobs.phase_bars import phase_title
from agentjobs.web.dashboard.jobs.reasons import error_title
from agentjobs.web.dashboard.navigation import OPERATOR, SECTIONS, SETTINGS
from agentjobs.web.dashboard.static_files import static_url
from agentjobs.web.dashboard.text.user_agents import describe_user_agent
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs.web.dashboard.text_filters import FILTERS
from agentjobs.web.pages import SAFETY_HEADERS, template_environment
from agentjobs_dependencies.advisories.severity import format_level
from agentjobs_runtime.clock import iso_utc

HEADERS: Mapping[str, str] = {
    **SAFETY_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers would send `Origin: null` with the dashboard's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


async def render(template: str, values: Mapping[str, Any]) -> str:
    """Renders in a thread, because large pages take long."""
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
    environment.filters["severity_label"] = format_level
    environment.filters["error_title"] = error_title
    environment.filters["phase_title"] = phase_title
    environment.filters["browser"] = describe_user_agent
    environment.filters.update(FILTERS)
    environment.globals.update(
        static_url=static_url, SECTIONS=SECTIONS, SETTINGS=SETTINGS, OPERATOR=OPERATOR
    )
    return environment
