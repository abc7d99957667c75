"""Renders untrusted Markdown as safe HTML: no raw HTML, no images, limited links and length."""

import asyncio
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

from agentjobs.web.dashboard.text.highlighting import highlight, language_named
from agentjobs.web.dashboard.text.visible_text import visible

MAX_RENDERED = 64 * 1024
MAX_RENDERED_LINES = 2_000
MAX_PLAIN = 256 * 1024
NOT_RENDERED = "The rest of this text is too long to render and is shown as plain text."

# Parsing a paragraph can take more than linear time.
_MAX_PARAGRAPH_LENGTH = 8 * 1024
_MAX_BRACKETS = 200
_PAGE_SECONDS = 0.3
_MAX_NESTING = 20
_MAX_CODE_LINES = 400
_HIGHLIGHT_SECONDS = 0.1
_HEADING_OFFSET = 2
_LINKS = ("http://", "https://", "mailto:", "#")
_REL = "nofollow noopener ugc"


def render(text: str) -> Markup:
    """A `<div class="prose">`; its headings begin at the third level."""
    return render_all([text])[0]


def render_all(texts: Sequence[str]) -> list[Markup]:
    """The texts of one page, which share a time limit; paragraphs after it are shown unrendered.

    Slow: call it in a thread.
    """
    deadline = time.thread_time() + _PAGE_SECONDS
    return [_render(text, deadline) for text in texts]


async def render_present(texts: Iterable[str | None]) -> list[Markup | None]:
    """Renders in a thread; None for each text that is missing or blank."""
    present = [text if text and text.strip() else None for text in texts]
    rendered = iter(await asyncio.to_thread(render_all, [text for text in present if text]))
    return [None if text is None else next(rendered) for text in present]


def _render(text: str, deadline: float) -> Markup:
    head, rest = _split(text)
    if time.thread_time() > deadline:
        # Even splitting into paragraphs takes time.
        head, rest = "", text
    html = _parser().render(head, {"deadline": deadline})
    if rest:
        shown = escape(visible(rest[:MAX_PLAIN])) + ("…" if len(rest) > MAX_PLAIN else "")
        html += f'<p class="note">{NOT_RENDERED}</p>\n<pre tabindex="0">{shown}</pre>\n'
    return Markup(f'<div class="prose">\n{html}</div>')  # noqa: S704 - escaped above


def _split(text: str) -> tuple[str, str]:
    """Splits at a line end into the part to render and the rest."""
    end = len(text)
    if end > MAX_RENDERED:
        end = text.rfind("\n", 0, MAX_RENDERED) + 1 or MAX_RENDERED
    beyond = text[:end].split("\n", MAX_RENDERED_LINES)[MAX_RENDERED_LINES:]
    end -= len(beyond[0]) if beyond else 0
    return text[:end], text[end:]


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - overrides markdown-it's method
        """Rejects relative links and script schemes."""
        return url.strip().lower().startswith(_LINKS)


@cache
def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.at("inline", _read_paragraphs)
    parser.core.ruler.push("safe", _make_safe)
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)
    return parser


def _read_paragraphs(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        if _is_expensive(token.content) or time.thread_time() > state.env["deadline"]:
            token.children = [Token("text", "", 0, content=token.content)]
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _is_expensive(paragraph: str) -> bool:
    """Every bracket may start a link, which the parser searches to its end."""
    return len(paragraph) > _MAX_PARAGRAPH_LENGTH or paragraph.count("[") > _MAX_BRACKETS


def _make_safe(state: StateCore) -> None:
    _renumber_headings(state.tokens)
    for token in state.tokens:
        if "style" in token.attrs:
            # The alignment of a table cell; the page allows no inline styles.
            token.attrs = {"class": str(token.attrs["style"]).replace("text-align:", "align-")}
        if token.children:
            token.children = list(_safe_inline(token.children))


def _renumber_headings(tokens: Sequence[Token]) -> None:
    """Places headings below the page's own, without skipped levels."""
    above: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            while above and above[-1] >= level:
                above.pop()
            above.append(level)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, len(above) + _HEADING_OFFSET)}"


def _safe_inline(children: Sequence[Token]) -> Iterator[Token]:
    link_depth = 0
    for token in children:
        link_depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type == "link_open":
            token.attrs = _link_attributes(str(token.attrs.get("href", "")))
        if token.type == "image":
            yield from _replace_image(token, is_inside_link=link_depth > 0)
            continue
        token.content = visible(token.content)
        yield token


def _replace_image(token: Token, *, is_inside_link: bool) -> Iterator[Token]:
    """An external image would reveal readers of the page to its host."""
    text = Token("text", "", 0, content=visible(f"Image: {token.content or 'no description'}"))
    if is_inside_link:
        yield text
        return
    yield Token("link_open", "a", 1, attrs=_link_attributes(str(token.attrs.get("src", ""))))
    yield text
    yield Token("link_close", "a", -1)


def _link_attributes(address: str) -> dict[str, str | int | float]:
    return {"href": address, "rel": _REL} if address else {}


def _code(
    _self: RendererHTML,
    tokens: Sequence[Token],
    at: int,
    _options: Any,
    _env: MutableMapping[str, Any],
) -> str:
    token = tokens[at]
    lines = visible(token.content.removesuffix("\n")).split("\n")
    info = token.info.split(None, 1)[:1]
    language = language_named(info[0]) if info and len(lines) <= _MAX_CODE_LINES else None
    html = None
    if language is not None:
        html = highlight(lines, language, deadline=time.thread_time() + _HIGHLIGHT_SECONDS)
    body = "\n".join(html) if html is not None else escape("\n".join(lines))
    return f'<pre tabindex="0"><code>{body}\n</code></pre>\n'
