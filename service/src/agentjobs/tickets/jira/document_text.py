"""Converts rich text of Jira Cloud (the Atlassian Document Format) to Markdown-like text.

Pure. Accepts any value; whatever is too deep, too long or unknown is left out.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from agentjobs.tickets.bounds import MAX_TEXT_BYTES

# Jira's editor nests a table in a list in a panel, but not twenty levels.
_MAX_DEPTH = 20
_MAX_LINK_CHARACTERS = 2_000
_MARKS = {"code": "`", "strong": "**", "em": "*", "strike": "~~"}
_INLINE = frozenset(
    {"text", "hardBreak", "date", "mention", "emoji", "status", "placeholder", "inlineCard"}
    | {"mediaInline", "inlineExtension"}
)
_TASKS = {"TODO": "[ ] ", "DONE": "[x] "}
# Attributes with visible text, of cards, mentions, emojis and expandable sections.
_TEXT_ATTRIBUTES = ("text", "title", "url", "alt", "shortName")

Node = Mapping[str, Any]
T = TypeVar("T")


def adf_text(document: Any) -> str:
    """Empty for an invalid document; a string is returned unchanged."""
    if isinstance(document, str):
        return document
    return "\n\n".join(_Writer().blocks(document, 0)).strip()


class _Writer:
    """Stops after slightly more than the maximum length of a ticket's text."""

    def __init__(self) -> None:
        # For characters and nodes: more than the limit, so that truncation is noticed.
        self._remaining = 2 * MAX_TEXT_BYTES

    def blocks(self, node: Any, depth: int) -> list[str]:
        """A block of text for each child; runs of inline nodes become one block."""
        blocks, inline = [], ""
        for child in self._children(node):
            if _type(child) in _INLINE:
                inline += self._inline(child)
                continue
            blocks += [inline.strip(), self._block(child, depth + 1)]
            inline = ""
        return [block for block in (*blocks, inline.strip()) if block.strip()]

    def _block(self, node: Node, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return "[…]"
        match _type(node):
            case "heading":
                level = min(max(_attribute(node, "level", 1), 1), 6)
                text = f"{'#' * level} {' '.join(self.blocks(node, depth))}"
            case "codeBlock":
                text = self._code(node)
            case "bulletList" | "orderedList" | "taskList" | "decisionList":
                text = self._list(node, depth)
            case "listItem" | "taskItem" | "decisionItem":
                task = _TASKS.get(_attribute(node, "state", ""), "")
                text = task + "\n".join(self.blocks(node, depth))
            case "table":
                text = self._table(node, depth)
            case "blockquote" | "panel":
                text = "> " + "\n\n".join(self.blocks(node, depth)).replace("\n", "\n> ")
            case "media":
                text = f"[attachment: {self._visible(node) or 'no description'}]"
            case "rule":
                text = "---"
            case _:
                text = "\n\n".join([self._visible(node), *self.blocks(node, depth)]).strip("\n")
        return text

    def _code(self, node: Node) -> str:
        text = "".join(self._inline(child) for child in self._children(node))
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        language = re.sub(r"[^\w+#.-]", "", _attribute(node, "language", ""))[:30]
        return f"{fence}{language}\n{text}\n{fence}"

    def _list(self, node: Node, depth: int) -> str:
        first = min(max(_attribute(node, "order", 1), 0), 10**9)
        is_ordered = _type(node) == "orderedList"
        items = []
        for number, child in enumerate(self._children(node), first):
            mark = f"{number}. " if is_ordered else "- "
            indented = self._block(child, depth + 1).replace("\n", "\n" + " " * len(mark))
            items.append(mark + indented)
        return "\n".join(items)

    def _table(self, node: Node, depth: int) -> str:
        rows = []
        for row in self._children(node):
            cells = [" ".join(self.blocks(cell, depth + 2)) for cell in self._children(row)]
            rows.append("| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |")
            if len(rows) == 1:
                rows.append("|" + " --- |" * len(cells))
        return "\n".join(rows)

    def _inline(self, node: Node) -> str:
        match _type(node):
            case "hardBreak":
                return self._take("\n")
            case "date":
                return _date(_attribute(node, "timestamp", ""))
            case "text":
                text = node.get("text")
                return self._marked(self._take(text if isinstance(text, str) else ""), node)
        return self._visible(node)

    def _marked(self, text: str, node: Node) -> str:
        marks = _mappings(node.get("marks")) if text.strip() else []
        for kind in dict.fromkeys(map(_type, marks)):
            text = f"{_MARKS.get(kind, '')}{text}{_MARKS.get(kind, '')}"
        links = (_attribute(mark, "href", "") for mark in marks if _type(mark) == "link")
        # Counted like text: a link on every letter would exceed the limit a thousand times.
        target = self._take(next(links, "")[:_MAX_LINK_CHARACTERS])
        return f"[{text}]({target})" if target and target != text else text

    def _visible(self, node: Node) -> str:
        texts = (_attribute(node, name, "") for name in _TEXT_ATTRIBUTES)
        return self._take(next(filter(None, texts), ""))

    def _children(self, node: Any) -> list[Node]:
        content = node.get("content") if isinstance(node, Mapping) else None
        children = _mappings(content)[: self._remaining]
        self._remaining -= len(children)
        return children

    def _take(self, text: str) -> str:
        part = text[: self._remaining]
        self._remaining -= len(part)
        return part


def _date(timestamp: str) -> str:
    """Milliseconds since the epoch, as text."""
    try:
        return datetime.fromtimestamp(int(timestamp[:16]) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _mappings(value: Any) -> list[Node]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _type(node: Node) -> str:
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


def _attribute(node: Node, name: str, default: T) -> T:
    attributes = node.get("attrs")
    value = attributes.get(name) if isinstance(attributes, Mapping) else None
    return value if isinstance(value, type(default)) else default
