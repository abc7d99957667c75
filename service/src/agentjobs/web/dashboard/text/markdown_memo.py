"""Renders the Markdown of a page that is rendered again and again while it is live."""

import asyncio
from collections.abc import Iterable

from markupsafe import Markup

from agentjobs.web.dashboard.text import markdown


class MarkdownMemo:
    """Keeps the texts of the last call, which rarely change."""

    def __init__(self) -> None:
        self._rendered: dict[str, Markup] = {}

    async def render(self, texts: Iterable[str | None]) -> list[Markup | None]:
        """None for each text that is missing or blank."""
        wanted = [text if text and text.strip() else None for text in texts]
        distinct = dict.fromkeys(text for text in wanted if text is not None)
        new = [text for text in distinct if text not in self._rendered]
        # Slow for long texts.
        html = await asyncio.to_thread(markdown.render_all, new) if new else []
        known = {**self._rendered, **dict(zip(new, html, strict=True))}
        self._rendered = {text: known[text] for text in distinct}
        return [None if text is None else known[text] for text in wanted]
