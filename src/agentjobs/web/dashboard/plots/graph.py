"""Draws a node and its neighbours as SVG: incoming edges on the left, outgoing on the right.

Returns a horizontal drawing for wide pages and a vertical one for narrow pages; the stylesheet
shows the one that fits. Escapes all text.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.canvas import number
from agentjobs.web.dashboard.plots.labels import clean, escape_text, shorten
from agentjobs.web.dashboard.text.visible_text import visible

Kind = Literal["plain", "external", "bad"]

_FONT = 13
# Upper bound for the stylesheet's monospace fonts.
_CHARACTER_WIDTH = 7.9
_ROW, _PITCH, _PADDING = 30.0, 37.0, 10.0
_HEAD = 8.0

_WIDE, _SIDE, _MIDDLE = 960.0, 310.0, 240.0
_NARROW, _INDENT, _BUS = 280.0, 24.0, 5.0
_BETWEEN = 26.0


class Node(msgspec.Struct, frozen=True):
    """`href` is the page the node links to, or empty; `note` is added to its title."""

    name: str
    href: str = ""
    kind: Kind = "plain"
    note: str = ""


class Picture(msgspec.Struct, frozen=True):
    """`more_left` and `more_right` count neighbours that are not drawn; the hrefs list them."""

    title: str
    centre: Node
    left: tuple[Node, ...] = ()
    right: tuple[Node, ...] = ()
    more_left: int = 0
    more_right: int = 0
    more_left_href: str = ""
    more_right_href: str = ""


def draw(picture: Picture) -> Markup:
    svg = _wide(picture) + _narrow(picture)
    return Markup(svg)  # noqa: S704 - `_escape` escaped all text


def _wide(picture: Picture) -> str:
    left, right = _columns(picture)
    height = max(_height(column) for column in (left, right, [picture.centre]))
    middle, begin, end = height / 2, (_WIDE - _MIDDLE) / 2, (_WIDE + _MIDDLE) / 2
    edges, boxes = [], []
    for node, y in _positions(left, height):
        edges.append(_curve(_SIDE, y + _ROW / 2, begin, middle))
        boxes.append(_box(node, 0, y, _SIDE))
    if left:
        edges.append(_arrow(begin, middle))
    for node, y in _positions(right, height):
        edges.append(_curve(end, middle, _WIDE - _SIDE, y + _ROW / 2))
        edges.append(_arrow(_WIDE - _SIDE, y + _ROW / 2))
        boxes.append(_box(node, _WIDE - _SIDE, y, _SIDE))
    centre = _box(picture.centre, begin, middle - _ROW / 2, _MIDDLE, is_centre=True)
    return _svg("wide", picture.title, _WIDE, height, [*edges, *boxes, centre])


def _positions(column: Sequence[Node], height: float) -> Iterator[tuple[Node, float]]:
    top = (height - _height(column)) / 2
    for index, node in enumerate(column):
        yield node, top + index * _PITCH


def _narrow(picture: Picture) -> str:
    """Incoming neighbours above, outgoing below; edges run along the left side."""
    left, right = _columns(picture)
    width = _NARROW - _INDENT
    top = _height(left) + _BETWEEN if left else 0.0
    centre, below = top + _ROW / 2, top + _ROW + _BETWEEN
    height = below + _height(right) if right else top + _ROW
    edges, boxes = [], []
    for node, y in _positions(left, _height(left)):
        edges.append(_line(f"M{number(_INDENT)} {number(y + _ROW / 2)}H{number(_BUS)}"))
        boxes.append(_box(node, _INDENT, y, width))
    if left:
        edges.append(
            _line(f"M{number(_BUS)} {number(_ROW / 2)}V{number(centre)}H{number(_INDENT)}")
        )
        edges.append(_arrow(_INDENT, centre))
    for node, y in _positions(right, _height(right)):
        tip = below + y + _ROW / 2
        edges.append(_line(f"M{number(_BUS)} {number(tip)}H{number(_INDENT)}"))
        edges.append(_arrow(_INDENT, tip))
        boxes.append(_box(node, _INDENT, below + y, width))
    if right:
        last = below + _height(right) - _ROW / 2
        out = f"M{number(_INDENT * 2)} {number(top + _ROW)}v{number(_BETWEEN / 2)}"
        edges.append(_line(f"{out}H{number(_BUS)}V{number(last)}"))
    boxes.append(_box(picture.centre, _INDENT, top, width, is_centre=True))
    return _svg("narrow", picture.title, _NARROW, height, [*edges, *boxes])


def _columns(picture: Picture) -> tuple[Sequence[Node], Sequence[Node]]:
    left, right = list(picture.left), list(picture.right)
    if picture.more_left:
        left.append(_more(picture.more_left, picture.more_left_href))
    if picture.more_right:
        right.append(_more(picture.more_right, picture.more_right_href))
    return left, right


def _more(count: int, href: str) -> Node:
    return Node(f"and {count:,} more", href)


def _height(column: Sequence[Node]) -> float:
    return max(0.0, len(column) * _PITCH - (_PITCH - _ROW))


def _box(node: Node, x: float, y: float, width: float, *, is_centre: bool = False) -> str:
    name = clean(node.name)
    label = shorten(name, int((width - 2 * _PADDING) / _CHARACTER_WIDTH))
    title = f"{name}, {visible(node.note)}" if node.note else name
    css_class = "node centre" if is_centre else "node"
    if node.kind != "plain":
        css_class += f" {node.kind}"
    # One unit of padding: half of an outline lies outside of its shape.
    inside = (
        f"<title>{escape_text(title)}</title>"
        f'<rect x="{number(x + 1)}" y="{number(y + 1)}" width="{number(width - 2)}"'
        f' height="{number(_ROW - 2)}" rx="6"/>'
        f'<text x="{number(x + _PADDING)}" y="{number(y + _ROW / 2 + _FONT * 0.35)}"'
        f' font-size="{_FONT}">{escape_text(label)}</text>'
    )
    if node.href and not is_centre:
        return f'<a class="{css_class}" href="{escape_text(node.href)}">{inside}</a>'
    return f'<g class="{css_class}">{inside}</g>'


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    """Ends horizontally, so that the arrow head points to the right."""
    bend = (x1 + x2) / 2
    return _line(
        f"M{number(x1)} {number(y1)}C{number(bend)} {number(y1)} {number(bend)} {number(y2)}"
        f" {number(x2)} {number(y2)}"
    )


def _line(path: str) -> str:
    return f'<path class="edge" d="{path}"/>'


def _arrow(x: float, y: float) -> str:
    return (
        f'<path class="arrow" d="M{number(x)} {number(y)}l-{number(_HEAD)} -{number(_HEAD / 2)}'
        f'v{number(_HEAD)}z"/>'
    )


def _svg(name: str, title: str, width: float, height: float, parts: Sequence[str]) -> str:
    # role="group" keeps the links inside accessible; role="img" would not.
    return (
        f'<svg class="graph graph-{name}" viewBox="0 0 {number(width)} {number(height)}"'
        f' role="group" aria-label="{escape_text(visible(title))}">{"".join(parts)}</svg>'
    )
