"""Converts rich text of Jira Cloud (the Atlassian Document Format) to Markdown-like text.

Pure. Accepts any value; whatever is too deep, too long or unknown is left out.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agentjobs.tickets.bounds import MAX_TEXT_BYTES

# Jira's editor nests a table in a list in a panel, but not twenty levels.
_MAX_DEPTH = 20
_MAX_NODES = 50_000
_MAX_LINK_CHARACTERS = 2_000
_TOO_DEEP = "[…]"
_MARKS = {"code": "`", "strong": "**", "em": "*", "strike": "~~"}
_PREFIXES = {"blockquote": "> ", "panel": "> "}
_BACKTICKS = re.compile(r"`+")

Node = Mapping[str, Any]


def adf_text(document: Any) -> str:
    """Empty for an invalid document; a string is returned unchanged."""
    if isinstance(document, str):
        return document
    return "\n\n".join(_Writer().blocks(document, 0)).strip()


class _Writer:
    """Stops after slightly more than the maximum length of a ticket's text."""

    def __init__(self) -> None:
        # One more than the limit, so that truncation is noticed.
        self._remaining = MAX_TEXT_BYTES + 1
        self._nodes = _MAX_NODES

    def blocks(self, node: Any, depth: int) -> list[str]:
        """A block of text for each child; runs of inline nodes become one block."""
        blocks: list[str] = []
        inline: list[str] = []
        for child in self._children(node):
            if _type(child) in _INLINE:
                inline.append(self._inline(child))
                continue
            _flush(inline, blocks)
            block = self._block(child, depth + 1)
            if block.strip():
                blocks.append(block)
        _flush(inline, blocks)
        return blocks

    def _block(self, node: Node, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return _TOO_DEEP
        kind = _type(node)
        if write := _BLOCKS.get(kind):
            return write(self, node, depth)
        body = "\n\n".join(self.blocks(node, depth))
        return _indent(body, _PREFIXES[kind]) if kind in _PREFIXES else body

    def heading(self, node: Node, depth: int) -> str:
        level = min(max(_number(node, "level", 1), 1), 6)
        return f"{'#' * level} {' '.join(self.blocks(node, depth))}"

    def code(self, node: Node, _: int) -> str:
        text = "".join(self._inline(child, marked=False) for child in self._children(node))
        fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
        language = re.sub(r"[^\w+#.-]", "", _attribute(node, "language"))[:30]
        return f"{fence}{language}\n{text}\n{fence}"

    def bullets(self, node: Node, depth: int) -> str:
        return "\n".join(
            self._item(child, "- " + _TASKS.get(_attribute(child, "state"), ""), depth)
            for child in self._children(node)
        )

    def numbers(self, node: Node, depth: int) -> str:
        first = max(_number(node, "order", 1), 0)
        return "\n".join(
            self._item(child, f"{number}. ", depth)
            for number, child in enumerate(self._children(node), first)
        )

    def table(self, node: Node, depth: int) -> str:
        rows = []
        for row in self._children(node):
            cells = [" ".join(self.blocks(cell, depth + 2)) for cell in self._children(row)]
            rows.append("| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |")
            if len(rows) == 1:
                rows.append("|" + " --- |" * len(cells))
        return "\n".join(rows)

    def expand(self, node: Node, depth: int) -> str:
        return "\n\n".join([self._take(_attribute(node, "title")), *self.blocks(node, depth)])

    def link(self, node: Node, _: int) -> str:
        return self._take(_attribute(node, "url"))

    def media(self, node: Node, _: int) -> str:
        return self._take(f"[attachment: {_attribute(node, 'alt') or 'no description'}]")

    def rule(self, _node: Node, _depth: int) -> str:
        return "---"

    def _item(self, node: Node, mark: str, depth: int) -> str:
        if depth + 1 > _MAX_DEPTH:
            return mark + _TOO_DEEP
        if _type(node) in _BLOCKS:
            # A list may contain a list directly.
            return _indent(self._block(node, depth + 1), "  ")
        body = "\n".join(self.blocks(node, depth + 1))
        return mark + _indent(body, " " * min(len(mark), 4)).lstrip(" ")

    def _inline(self, node: Node, *, marked: bool = True) -> str:
        kind = _type(node)
        if kind == "hardBreak":
            return "\n"
        if kind == "date":
            return _date(_attribute(node, "timestamp"))
        if kind != "text":
            name = _INLINE.get(kind, "text")
            return self._take(_attribute(node, name) or _attribute(node, "shortName"))
        text = self._take(_string(node.get("text")))
        return self._apply_marks(text, node) if marked and text.strip() else text

    def _apply_marks(self, text: str, node: Node) -> str:
        value = node.get("marks")
        items = value if isinstance(value, list) else []
        marks = [mark for mark in items if isinstance(mark, Mapping)]
        for kind in dict.fromkeys(map(_type, marks)):
            delimiter = _MARKS.get(kind, "")
            text = f"{delimiter}{text}{delimiter}"
        links = (_attribute(mark, "href") for mark in marks if _type(mark) == "link")
        # Counted like text: a link on every letter would exceed the limit a thousand times.
        target = self._take(next(links, "")[:_MAX_LINK_CHARACTERS])
        return f"[{text}]({target})" if target and target != text else text

    def _children(self, node: Any) -> list[Node]:
        content = node.get("content") if isinstance(node, Mapping) else None
        if not isinstance(content, list) or self._remaining <= 0:
            return []
        children = [child for child in content[: self._nodes] if isinstance(child, Mapping)]
        self._nodes -= len(children)
        return children

    def _take(self, text: str) -> str:
        part = text[: max(self._remaining, 0)]
        self._remaining -= len(part)
        return part


# Inline nodes and the attribute with their visible text.
_INLINE: Mapping[str, str] = {
    "text": "",
    "hardBreak": "",
    "date": "timestamp",
    "mention": "text",
    "emoji": "text",
    "status": "text",
    "placeholder": "text",
    "inlineCard": "url",
    "mediaInline": "alt",
    "inlineExtension": "text",
}
_TASKS = {"TODO": "[ ] ", "DONE": "[x] "}
_BLOCKS: Mapping[str, Callable[[_Writer, Node, int], str]] = {
    "heading": _Writer.heading,
    "codeBlock": _Writer.code,
    "bulletList": _Writer.bullets,
    "taskList": _Writer.bullets,
    "decisionList": _Writer.bullets,
    "orderedList": _Writer.numbers,
    "table": _Writer.table,
    "expand": _Writer.expand,
    "nestedExpand": _Writer.expand,
    "blockCard": _Writer.link,
    "embedCard": _Writer.link,
    "media": _Writer.media,
    "rule": _Writer.rule,
}


def _flush(inline: list[str], blocks: list[str]) -> None:
    if text := "".join(inline).strip():
        blocks.append(text)
    inline.clear()


def _indent(text: str, prefix: str) -> str:
    return "\n".join((prefix + line).rstrip() for line in text.split("\n"))


def _date(timestamp: str) -> str:
    """Milliseconds since the epoch, as text."""
    try:
        return datetime.fromtimestamp(int(timestamp[:16]) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _type(node: Node) -> str:
    return _string(node.get("type"))


def _attribute(node: Node, name: str) -> str:
    attributes = node.get("attrs")
    return _string(attributes.get(name)) if isinstance(attributes, Mapping) else ""


def _number(node: Node, name: str, default: int) -> int:
    attributes = node.get("attrs")
    value = attributes.get(name) if isinstance(attributes, Mapping) else None
    return value if isinstance(value, int) and abs(value) < 10**9 else default


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
