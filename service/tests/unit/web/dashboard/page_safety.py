"""Checks a page for untrusted text that became markup, a script, a link or invisible."""

import re

from service.tests.unit.web.dashboard.browser import Page

_SAFE_ADDRESS = re.compile(r"(/(?!/)|#|https?://|mailto:)")
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
# Tags that load, run or redirect, and tags that occur only in the hostile texts.
_BAD_TAGS = {"applet", "audio", "b", "base", "embed", "iframe", "math", "object", "video"}


def safety_faults(page: Page) -> list[str]:
    """Every unsafe element of the page."""
    faults = [] if page.is_safe() else ["a script, a handler, a style or a foreign picture"]
    faults += [f"<{tag}>" for tag, _ in page.tags if tag in _BAD_TAGS or not tag.isalnum()]
    for tag, attributes in page.tags:
        for name in ("href", "src", "action", "formaction", "data-live", "data-log", "data-lazy"):
            value = attributes.get(name)
            if value is not None and not _SAFE_ADDRESS.match(value):
                faults.append(f"{tag} {name}={value!r}")
        for name in ("title", "aria-label", "alt", "placeholder"):
            if _INVISIBLE.search(attributes.get(name) or ""):
                faults.append(f"invisible characters in {name}")
    invisible = _INVISIBLE.search(page.text)
    if invisible:
        around = page.text[max(0, invisible.start() - 60) : invisible.end() + 20]
        faults.append(f"invisible characters in the text: {around!r}")
    return faults


def collapse_whitespace(text: str) -> str:
    """Remove whitespace: highlighting may put tags between words."""
    return "".join(text.split())
