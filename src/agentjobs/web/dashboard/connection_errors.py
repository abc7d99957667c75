"""Connection errors as tenants see them: without paths on this host."""

import re

from agentjobs.web.dashboard.text.visible_text import visible

# The rest names the missing key and its file.
_LOCKED = re.compile(r"(?s) is locked\. .*")
_LOCKED_MESSAGE = " is locked and cannot be opened here. Replace it, or contact the operator."


def for_tenants(text: str) -> str:
    return _LOCKED.sub(_LOCKED_MESSAGE, text)


def trouble(text: str) -> str:
    """Template filter for stored error messages."""
    return visible(for_tenants(text))
