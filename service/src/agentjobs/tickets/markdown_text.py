"""Removes HTML comments from an issue's Markdown, because platforms do not show them.

The agent gets only text that readers of the issue can see. Pure; comments in code stay.
"""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEGIN, _END = "<!--", "-->"


def visible_text(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    last_end = max((number for number, line in enumerate(lines) if _END in line), default=-1)
    visible: list[str] = []
    fence = ""
    is_hidden = False
    for number, line in enumerate(lines):
        if is_hidden:
            _, end, line = line.partition(_END)  # noqa: PLW2901 - the rest of it
            is_hidden = not end
            if is_hidden or not line.strip():
                continue
        if fence:
            fence = "" if _closes(line, fence) else fence
            visible.append(line)
            continue
        if match := _FENCE.match(line):
            fence = match[1]
            visible.append(line)
            continue
        shown, is_hidden = _strip_comments(line, may_continue=number < last_end)
        if shown.strip() or shown == line:
            visible.append(shown)
    return "\n".join(visible)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _strip_comments(line: str, *, may_continue: bool) -> tuple[str, bool]:
    """The visible rest, and whether a comment continues on the next line; one that never ends does
    so only if it starts its line."""
    shown = []
    at = ticks = 0
    while (start := line.find(_BEGIN, at)) >= 0:
        ticks += line.count("`", at, start)
        shown.append(line[at:start])
        if ticks % 2:
            # Between backticks it is code, which is shown.
            shown.append(_BEGIN)
            at = start + len(_BEGIN)
            continue
        end = line.find(_END, start + len(_BEGIN))
        if end < 0:
            is_hidden = may_continue or not line[:start].strip()
            return "".join(shown) + ("" if is_hidden else line[start:]), is_hidden
        at = end + len(_END)
    return "".join(shown) + line[at:], False
