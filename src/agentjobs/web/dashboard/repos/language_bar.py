"""Lines by language, as an SVG bar and as table rows."""

from collections.abc import Sequence
from html import escape

import msgspec
from markupsafe import Markup

from agentjobs.inventory.model import LanguageLines
from agentjobs.web.dashboard.plots.canvas import number

_MAX_LANGUAGES = 6
_WIDTH, _HEIGHT, _GAP = 600.0, 12.0, 1.5
_OTHERS = "s-quiet"


class LanguageShare(msgspec.Struct, frozen=True):
    language: str
    lines: int
    files: int
    share: float
    css_class: str


class LanguageBar(msgspec.Struct, frozen=True):
    svg: Markup
    rows: tuple[LanguageShare, ...]
    lines: int


def language_bar(languages: Sequence[LanguageLines]) -> LanguageBar | None:
    """Largest languages first, small ones combined; None if there are no lines."""
    ordered = sorted(languages, key=lambda language: (-language.lines, language.language))
    total = sum(language.lines for language in ordered)
    if total <= 0:
        return None
    first, others = ordered[:_MAX_LANGUAGES], ordered[_MAX_LANGUAGES:]
    rows = [
        LanguageShare(
            language.language, language.lines, language.files, language.lines / total, f"s-{index}"
        )
        for index, language in enumerate(first, 1)
    ]
    if others:
        lines = sum(language.lines for language in others)
        files = sum(language.files for language in others)
        name = f"{len(others)} others" if len(others) > 1 else others[0].language
        rows.append(LanguageShare(name, lines, files, lines / total, _OTHERS))
    return LanguageBar(Markup(_svg(rows)), tuple(rows), total)  # noqa: S704 - made of numbers and classes


def _svg(rows: Sequence[LanguageShare]) -> str:
    # Hidden from screen readers, which get the table below.
    parts, x = [], 0.0
    for row in rows:
        width = row.share * _WIDTH
        parts.append(
            f'<rect class="mark {escape(row.css_class)}" x="{number(x)}" y="0"'
            f' width="{number(max(width - _GAP, 0.6))}" height="{number(_HEIGHT)}"/>'
        )
        x += width
    return (
        f'<svg class="share" viewBox="0 0 {number(_WIDTH)} {number(_HEIGHT)}"'
        f' preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
    )
