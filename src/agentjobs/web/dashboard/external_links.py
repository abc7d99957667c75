"""Addresses that lead out of the service: others wrote them, so only the web's own are links."""

import re

# Neither javascript: nor data:, and nothing that a browser would read otherwise than a person.
_WEB = re.compile(r"https?://[^\s\x00-\x20\x7f]+", re.IGNORECASE)


def web_address(url: str | None) -> str:
    """The address, or the empty text where it must not be a link."""
    return url if url is not None and _WEB.fullmatch(url) else ""
