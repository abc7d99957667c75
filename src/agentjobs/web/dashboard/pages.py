"""The dashboard's templates, rendered beside the event loop, and what they say in them."""

import asyncio
import re
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment
from starlette.responses import Response

from agentjobs.clock import iso_utc
from agentjobs.settings import Settings
from agentjobs.web.pages import SAFETY_HEADERS, template_environment

_HEADERS = {**SAFETY_HEADERS, "Cache-Control": "private, no-cache"}
# These make text look like other text than it is: a reviewer must see them.
_DECEIVING = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


async def page(settings: Settings, template: str, **values: Any) -> Response:
    """Rendered beside the event loop: a large diff takes its time."""
    prefix = urlsplit(settings.effective_public_url).path.rstrip("/")
    html = await asyncio.to_thread(_render, template, {"prefix": prefix, **values})
    return Response(html, media_type="text/html", headers=_HEADERS)


def visible(text: str) -> str:
    """The text with its invisible characters named, so that what is read is what is there."""
    if text.isprintable():
        return text
    named = _DECEIVING.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", named.replace("\r\n", "\n"))


def day_and_time(at_ms: int) -> str:
    return iso_utc(at_ms)[:16].replace("T", " ") + " UTC"


def _render(template: str, values: dict[str, Any]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = template_environment("agentjobs.web.dashboard")
    environment.filters["visible"] = visible
    environment.filters["day_and_time"] = day_and_time
    environment.filters["iso"] = iso_utc
    return environment
