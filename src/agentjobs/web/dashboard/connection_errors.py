"""Why a platform could not be asked, without what is only the operator's: places on this host."""

import re

from agentjobs.web.dashboard.text.visible_text import visible

# What follows says which key is missing, and in which file it is looked for.
_LOCKED = re.compile(r"(?s) is locked\. .*")
_INSTEAD = " is locked: it cannot be opened here. Replace it, or tell the operator."


def for_tenants(text: str) -> str:
    return _LOCKED.sub(_INSTEAD, text)


def trouble(text: str) -> str:
    """As a page shows what was written down when it happened."""
    return visible(for_tenants(text))
