"""What an advisory says besides what matching needs: its description, links and weaknesses.

Stored apart, because scans read thousands of advisories. Everything is bounded.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

MAX_DETAILS_BYTES = 16 * 1024
MAX_REFERENCES = 20
_MAX_WEAKNESSES = 20
_MAX_ADDRESS_LENGTH = 500
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d+)?(?:/[!-~]*)?")
_WEAKNESS = re.compile(r"CWE-[1-9][0-9]{0,5}")

T = TypeVar("T")

# In the order in which they are shown.
REFERENCE_LABELS = {
    "ADVISORY": "Advisory",
    "FIX": "Fix",
    "REPORT": "Report",
    "EVIDENCE": "Evidence",
    "INTRODUCED": "Introduced by",
    "DETECTION": "Detection",
    "ARTICLE": "Article",
    "DISCUSSION": "Discussion",
    "PACKAGE": "Package",
    "WEB": "Web",
}


class Reference(msgspec.Struct, frozen=True, array_like=True):
    """`kind` is a key of `REFERENCE_LABELS`."""

    kind: str
    url: str


class AdvisoryText(msgspec.Struct, frozen=True):
    """`details` is Markdown."""

    details: str = ""
    references: tuple[Reference, ...] = ()
    weaknesses: tuple[str, ...] = ()


def parse_text(details: str | None, references: Any, weaknesses: Any) -> AdvisoryText | None:
    """None if the record says nothing. References and weaknesses of records may be of any type."""
    text = AdvisoryText(
        _shorten((details or "").replace("\0", "").strip()),
        _unique(_references(references), MAX_REFERENCES),
        _unique(_weaknesses(weaknesses), _MAX_WEAKNESSES),
    )
    return text if text != AdvisoryText() else None


def merge_texts(texts: Iterable[AdvisoryText]) -> AdvisoryText:
    """Combines records of one vulnerability: the first description, and all links."""
    texts = list(texts)
    order = list(REFERENCE_LABELS)
    references = _unique(
        (reference for text in texts for reference in text.references), MAX_REFERENCES
    )
    return AdvisoryText(
        next((text.details for text in texts if text.details), ""),
        tuple(sorted(references, key=lambda reference: order.index(reference.kind))),
        _unique((weakness for text in texts for weakness in text.weaknesses), _MAX_WEAKNESSES),
    )


def _shorten(text: str) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_DETAILS_BYTES:
        return text
    return encoded[: MAX_DETAILS_BYTES - 3].decode("utf-8", "ignore") + "…"


def _references(references: Any) -> Iterator[Reference]:
    for item in references if isinstance(references, list) else ():
        url, kind = (item.get("url"), item.get("type")) if isinstance(item, dict) else ("", "")
        if not isinstance(url, str) or not isinstance(kind, str):
            continue
        if len(url) <= _MAX_ADDRESS_LENGTH and _WEB_ADDRESS.fullmatch(url):
            yield Reference(kind if kind in REFERENCE_LABELS else "WEB", url)


def _weaknesses(weaknesses: Any) -> Iterator[str]:
    for item in weaknesses if isinstance(weaknesses, list) else ():
        if isinstance(item, str) and _WEAKNESS.fullmatch(item):
            yield item


def _unique(items: Iterable[T], limit: int) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))[:limit]
