"""An issue's Markdown without its HTML comments, which a platform shows to nobody.

Who reads the issue shall have seen what the agent is told. Pure; comments in code stay.
"""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEGIN, _END = "<!--", "-->"


def seen_text(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    last_end = max((at for at, line in enumerate(lines) if _END in line), default=-1)
    seen: list[str] = []
    fence = ""
    is_hidden = False
    for at, line in enumerate(lines):
        if is_hidden:
            _, end, line = line.partition(_END)  # noqa: PLW2901 - what is left of it
            is_hidden = not end
            if is_hidden or not line.strip():
                continue
        if fence:
            fence = "" if _closes(line, fence) else fence
            seen.append(line)
            continue
        if found := _FENCE.match(line):
            fence = found[1]
            seen.append(line)
            continue
        kept, is_hidden = _seen_of_line(line, may_go_on=at < last_end)
        if kept.strip() or kept == line:
            seen.append(kept)
    return "\n".join(seen)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _seen_of_line(line: str, *, may_go_on: bool) -> tuple[str, bool]:
    """With whether a comment goes on below; one that ends nowhere must begin its line for that."""
    kept = []
    at = ticks = 0
    while (start := line.find(_BEGIN, at)) >= 0:
        ticks += line.count("`", at, start)
        kept.append(line[at:start])
        if ticks % 2:
            # Between backticks it is code, and seen.
            kept.append(_BEGIN)
            at = start + len(_BEGIN)
            continue
        end = line.find(_END, start + len(_BEGIN))
        if end < 0:
            is_hidden = may_go_on or not line[:start].strip()
            return "".join(kept) + ("" if is_hidden else line[start:]), is_hidden
        at = end + len(_END)
    return "".join(kept) + line[at:], False
