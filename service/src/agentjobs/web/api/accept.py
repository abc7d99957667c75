"""Reads the Accept header of a request, to choose the media type of the response."""

from collections.abc import Sequence

from starlette.types import Scope

from agentjobs.web.api.headers import all_headers, media_type

_MAX_RANGES = 50


def names_type(scope: Scope, name: str) -> bool:
    """Whether the client names this type itself, with any quality."""
    return any(media_type(text) == name for text in _accept_header(scope).split(","))


def preferred_type(scope: Scope, offered: Sequence[str]) -> str:
    """The first type that the client prefers; `offered[0]` if it accepts none of them.

    Of types with the same quality, one that the client names precedes one that `*` matches.
    """
    texts = _accept_header(scope).split(",", _MAX_RANGES)[:_MAX_RANGES]
    ranges = [_parse_range(text) for text in texts]
    ranked = [(_rank(name, ranges), name) for name in offered]
    best, name = max(ranked, key=lambda candidate: candidate[0])
    return name if best[0] > 0 else offered[0]


def _accept_header(scope: Scope) -> str:
    return b",".join(all_headers(scope, b"accept")).decode("latin-1")


def _rank(offered: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """The quality and precision of the most precise range that matches."""
    forms = ("*/*", f"{offered.partition('/')[0]}/*", offered)
    matches = [(forms.index(name), quality) for name, quality in ranges if name in forms]
    precision, quality = max(matches, default=(0, 0.0))
    return quality, precision


def _parse_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next(
        (parameter[2:].strip() for parameter in parameters if parameter.startswith("q=")), "1"
    )
    try:
        return name, min(max(float(quality), 0.0), 1.0)
    except ValueError:
        return name, 0.0
