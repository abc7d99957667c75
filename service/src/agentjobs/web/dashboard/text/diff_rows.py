"""Table rows of a diff: one column of lines, or the old and the new lines side by side.

Every line has a place, a side and a number, which is its anchor; `inserts` are shown below theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Literal

import msgspec
from markupsafe import Markup

from agentjobs.local_git.patch import LineKind

Side = Literal["left", "right"]
# The lines of the old file are on the left; unchanged lines are on both sides.
Place = tuple[Side, int]
NO_INSERTS: Mapping[Place, Markup] = MappingProxyType({})

_SPLIT_COLUMNS = 4
_UNIFIED_COLUMNS = 3
_NOTHING = '<td class="none" colspan="2"></td>'


class LineView(msgspec.Struct, frozen=True):
    kind: LineKind
    html: Markup
    old_number: int | None
    new_number: int | None

    @property
    def places(self) -> Iterator[Place]:
        if self.old_number is not None:
            yield "left", self.old_number
        if self.new_number is not None:
            yield "right", self.new_number


_Pair = tuple[LineView | None, LineView | None]


def unified_rows(anchor: str, lines: Sequence[LineView], inserts: Mapping[Place, Markup]) -> Markup:
    rows: list[str] = []
    for line in lines:
        old, new = _old_number(anchor, line), _new_number(anchor, line)
        rows.append(f'<tr class="{line.kind}">{old}{new}<td class="code">{line.html}</td></tr>\n')
        rows += _inserted([line], inserts, _UNIFIED_COLUMNS)
    return _join(rows)


def split_rows(anchor: str, lines: Sequence[LineView], inserts: Mapping[Place, Markup]) -> Markup:
    rows: list[str] = []
    for left, right in _pairs(lines):
        if left is None or left is not right:
            old = _NOTHING if left is None else _old_number(anchor, left) + _code(left)
            new = _NOTHING if right is None else _new_number(anchor, right) + _code(right)
            rows.append(f"<tr>{old}{new}</tr>\n")
        elif left.kind == "context":
            old, new = _old_number(anchor, left), _new_number(anchor, left)
            rows.append(f'<tr class="context">{old}{_code(left)}{new}{_code(left)}</tr>\n')
        else:
            code = f'<td class="code" colspan="3">{left.html}</td>'
            rows.append(f'<tr class="{left.kind}"><td></td>{code}</tr>\n')
        beside = [line for line in (left, right) if line is not None]
        rows += _inserted(beside, inserts, _SPLIT_COLUMNS)
    return _join(rows)


def _pairs(lines: Sequence[LineView]) -> Iterator[_Pair]:
    """Removed lines beside the added lines that replace them; all others beside themselves."""
    removed: list[LineView] = []
    added: list[LineView] = []
    for line in lines:
        if line.kind == "removed" and not added:
            removed.append(line)
        elif line.kind == "added":
            added.append(line)
        elif line.kind == "note" and (removed or added):
            # About the line before it: it has no newline at its end.
            (added or removed).append(line)
        else:
            yield from zip_longest(removed, added)
            removed, added = [], []
            if line.kind == "removed":
                removed.append(line)
            else:
                yield line, line
    yield from zip_longest(removed, added)


def _old_number(anchor: str, line: LineView) -> str:
    """Only removed lines have their anchor here: others have a new number."""
    if line.kind == "removed":
        return f'<td id="{anchor}L{line.old_number}">{line.old_number}</td>'
    return f"<td>{line.old_number or ''}</td>"


def _new_number(anchor: str, line: LineView) -> str:
    number = line.new_number
    return "<td></td>" if number is None else f'<td id="{anchor}R{number}">{number}</td>'


def _code(line: LineView) -> str:
    kind = "" if line.kind == "context" else f" {line.kind}"
    return f'<td class="code{kind}">{line.html}</td>'


def _inserted(
    beside: Sequence[LineView], inserts: Mapping[Place, Markup], columns: int
) -> Iterator[str]:
    if not inserts:
        return
    places = dict.fromkeys(place for line in beside for place in line.places)
    for place in places:
        if place in inserts:
            cell = f'<td class="insert" colspan="{columns}">{inserts[place]}</td>'
            yield f'<tr class="insert">{cell}</tr>\n'


def _join(rows: Sequence[str]) -> Markup:
    """Rows consist of numbers, anchors, fixed class names and escaped HTML."""
    return Markup("".join(rows))  # noqa: S704 - see above
