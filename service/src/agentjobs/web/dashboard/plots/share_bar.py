"""A bar of shares of a whole. Screen readers do not see it: the page says the same in a list."""

from collections.abc import Sequence
from html import escape

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.canvas import number

_WIDTH, _HEIGHT, _GAP = 600.0, 12.0, 1.5
_MIN_WIDTH = 0.6


class Segment(msgspec.Struct, frozen=True):
    """`title` is shown on hover."""

    css_class: str
    size: float
    title: str = ""


def share_bar(segments: Sequence[Segment], *, min_share: float = 0) -> Markup:
    """Every segment has `min_share` of the width, and the rest by its size."""
    total = sum(segment.size for segment in segments) or 1
    rest = 1 - min_share * len(segments)
    parts, x = [], 0.0
    for segment in segments:
        gap = 0 if segment is segments[-1] else _GAP
        width = _WIDTH * (min_share + rest * segment.size / total)
        title = f"<title>{escape(segment.title)}</title>" if segment.title else ""
        parts.append(
            f'<rect class="mark {escape(segment.css_class)}" x="{number(x)}" y="0"'
            f' width="{number(max(width - gap, _MIN_WIDTH))}" height="{number(_HEIGHT)}">'
            f"{title}</rect>"
        )
        x += width
    return Markup(  # noqa: S704 - classes and titles are escaped
        f'<svg class="share" viewBox="0 0 {number(_WIDTH)} {number(_HEIGHT)}"'
        f' preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
    )
