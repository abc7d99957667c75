"""Chooses the media type of a response by the Accept header of its request."""

from collections.abc import Sequence

from starlette.types import Scope

from agentjobs.web.api.headers import all_headers

_MAX_RANGES = 50


def preferred_type(scope: Scope, offered: Sequence[str]) -> str:
    """The first type that the client prefers; `offered[0]` if it accepts none of them.

    Of types with the same quality, one that the client names precedes one that `*` matches.
    """
    header = b",".join(all_headers(scope, b"accept")).decode("latin-1")
    ranges = [_parse_range(text) for text in header.split(",", _MAX_RANGES)[:_MAX_RANGES]]
    ranked = [(_rank(media_type, ranges), media_type) for media_type in offered]
    best, media_type = max(ranked, key=lambda each: each[0])
    return media_type if best[0] > 0 else offered[0]


def _rank(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """The quality and precision of the most precise range that matches."""
    forms = ("*/*", f"{media_type.partition('/')[0]}/*", media_type)
    matches = [(forms.index(name), quality) for name, quality in ranges if name in forms]
    precision, quality = max(matches, default=(0, 0.0))
    return quality, precision


def _parse_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((each[2:].strip() for each in parameters if each.startswith("q=")), "1")
    try:
        return name, min(max(float(quality), 0.0), 1.0)
    except ValueError:
        return name, 0.0
