"""Lines by language, as an SVG bar and as table rows."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.share_bar import Segment, share_bar
from agentjobs_dependencies.languages import LanguageLines

_MAX_LANGUAGES = 6
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
    svg = share_bar([Segment(row.css_class, row.lines) for row in rows])
    return LanguageBar(svg, tuple(rows), total)
