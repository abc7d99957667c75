"""Links out of the dashboard. Their addresses come from others, so only http and https count."""

import re

# Excludes javascript: and data:, and characters that browsers drop or interpret.
_WEB = re.compile(r"https?://[^\s\x00-\x20\x7f]+", re.IGNORECASE)


def web_address(url: str | None) -> str:
    """The address, or the empty string if it must not become a link."""
    return url if url is not None and _WEB.fullmatch(url) else ""
