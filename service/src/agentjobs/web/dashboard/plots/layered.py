"""Draws a graph in rows as SVG: boxes that are links, and curves that point down.

Returns a drawing for wide pages and one for narrow pages; the stylesheet shows the one that fits.
Escapes all text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.canvas import number
from agentjobs.web.dashboard.plots.labels import clean, escape_text, shorten, text_width
from agentjobs_dependencies.graph.layers import Edge, arrange
from agentjobs_dependencies.graph.package_map import Kind

_FONT, _COUNT_FONT = 13.0, 11.0
# Upper bounds for the stylesheet's monospace fonts.
_CHARACTER_WIDTH, _DIGIT_WIDTH = 7.9, 6.8
_PADDING, _GAP, _MARGIN = 11.0, 16.0, 12.0
_ROW, _MIN_BETWEEN, _MAX_BETWEEN = 28.0, 21.0, 60.0
_HEAD, _PORT = 7.0, 9.0
_CYCLE = "\u21bb"


class Box(msgspec.Struct, frozen=True):
    """`href` may be empty; `count` is shown behind the label, and `note` is added to the title."""

    label: str
    href: str
    kind: Kind
    count: str = ""
    note: str = ""


class _Size(msgspec.Struct, frozen=True):
    name: str
    max_width: float
    max_label: int


_SIZES = (_Size("wide", 900.0, 42), _Size("narrow", 300.0, 24))


class Layered(msgspec.Struct, frozen=True):
    svg: Markup
    in_cycle: frozenset[int]


def draw_layers(title: str, boxes: Sequence[Box], links: Mapping[Edge, int]) -> Layered:
    """`boxes` must not be empty."""
    drawings = [_Drawing(size, boxes, links) for size in _SIZES]
    svg = "".join(drawing.svg(title) for drawing in drawings)
    return Layered(Markup(svg), drawings[0].in_cycle)  # noqa: S704 - `escape_text` escaped all text


class _Drawing:
    def __init__(self, size: _Size, boxes: Sequence[Box], links: Mapping[Edge, int]) -> None:
        self._name = size.name
        self._boxes = boxes
        self._links = links
        self._labels = [shorten(clean(box.label), size.max_label) for box in boxes]
        self._widths = [_width(box, label) for box, label in zip(boxes, self._labels, strict=True)]
        self._layers = arrange([width + _GAP for width in self._widths], links, size.max_width)
        self._lines = {**self._layers.routes, **self._layers.returns}
        self._top, self._height = self._place_rows()
        self._targets: defaultdict[int, list[int]] = defaultdict(list)
        for start, end in links:
            self._targets[start].append(end)

    @property
    def in_cycle(self) -> frozenset[int]:
        return self._layers.in_cycle

    def svg(self, title: str) -> str:
        centers = self._layers.centers
        # Bends have no width.
        halves = [width / 2 for width in self._widths] + [0.0] * len(centers)
        spans = [(x - half, x + half) for x, half in zip(centers, halves, strict=False)]
        left, right = min(spans)[0] - _MARGIN, max(end for _, end in spans) + _MARGIN
        height = self._height + 2 * _MARGIN
        parts = [*self._edges(), *map(self._node, range(len(self._boxes)))]
        # role="group" keeps the links inside accessible; role="img" would not.
        return (
            f'<svg class="graph layered graph-{self._name}" role="group"'
            f' aria-label="{escape_text(clean(title))}" width="{number(right - left)}"'
            f' viewBox="{number(left)} {number(-_MARGIN)}'
            f' {number(right - left)} {number(height)}">{"".join(parts)}</svg>'
        )

    def _place_rows(self) -> tuple[dict[int, float], float]:
        """The upper edge of each item, and the height: more space where many lines pass."""
        row_of = {item: at for at, row in enumerate(self._layers.rows) for item in row}
        lines = Counter(row_of[item] for route in self._lines.values() for item in route[1:])
        tops: dict[int, float] = {}
        bottom = 0.0
        for at, row in enumerate(self._layers.rows):
            top = bottom + min(_MIN_BETWEEN + 1.2 * lines[at], _MAX_BETWEEN) if at else 0.0
            tops |= dict.fromkeys(row, top)
            bottom = top + _ROW
        return tops, bottom

    def _node(self, at: int) -> str:
        box, width = self._boxes[at], self._widths[at]
        x, y = self._layers.centers[at] - width / 2, self._top[at]
        is_in_cycle = at in self._layers.in_cycle
        notes = [clean(box.note)] if box.note else []
        notes += ["part of an import cycle"] if is_in_cycle else []
        count = f"{box.count} {_CYCLE}".strip() if is_in_cycle else box.count
        tag = "a" if box.href else "g"
        href = f' href="{escape_text(box.href)}"' if box.href else ""
        return (
            f'<{tag} class="node {box.kind}"{href} data-node="{at}"'
            f' data-to="{" ".join(map(str, self._targets[at]))}">'
            f"<title>{escape_text(', '.join([clean(box.label), *notes]))}</title>"
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}"'
            f' height="{number(_ROW)}" rx="6"/>'
            f'<text x="{number(x + width / 2)}" y="{number(y + _ROW / 2 + _FONT * 0.35)}"'
            f' font-size="{number(_FONT)}" text-anchor="middle">{escape_text(self._labels[at])}'
            f"{_amount(count)}</text></{tag}>"
        )

    def _edges(self) -> Iterator[str]:
        leave = self._spread([(route[0], route[1]) for route in self._lines.values()])
        enter = self._spread([(route[-1], route[-2]) for route in self._lines.values()])
        for at, (edge, route) in enumerate(self._lines.items()):
            bends = [self._layers.centers[item] for item in route[1:-1]]
            is_return = edge in self._layers.returns
            points_up = is_return or edge[::-1] in self._layers.backward
            path, heads = self._curve(
                route, [leave[at], *bends, enter[at]], up=points_up, down=not is_return
            )
            yield (
                f'<g class="link{" back" * points_up}" data-edge="{edge[0]} {edge[1]}">'
                f"<title>{escape_text(self._describe(edge))}</title>"
                f'<path class="edge" d="{path}"/><path class="arrow" d="{heads}"/></g>'
            )

    def _describe(self, edge: Edge) -> str:
        """The imports that a line stands for."""
        return ", ".join(
            f"{self._labels[start]} \u2192 {self._labels[end]} ({self._links[start, end]:,})"
            for start, end in (edge, edge[::-1])
            if (start, end) in self._links
        )

    def _spread(self, ends: Sequence[tuple[int, int]]) -> dict[int, float]:
        """Where lines touch their boxes: side by side, in the order of the items they lead to."""
        lines: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        for at, (node, neighbor) in enumerate(ends):
            lines[node].append((self._layers.centers[neighbor], at))
        places: dict[int, float] = {}
        for node, own in lines.items():
            room = self._widths[node] - 2 * _PADDING
            step = min(_PORT, room / max(1, len(own) - 1))
            begin = self._layers.centers[node] - step * (len(own) - 1) / 2
            places |= {at: begin + index * step for index, (_, at) in enumerate(sorted(own))}
        return places

    def _curve(
        self, route: Sequence[int], xs: Sequence[float], *, up: bool, down: bool
    ) -> tuple[str, str]:
        """A line down through the bends, and the heads at its upper and its lower end."""
        tops = [self._top[item] for item in route]
        path = f"M{number(xs[0])} {number(tops[0] + _ROW + _HEAD * up)}"
        for at, (x1, x2) in enumerate(pairwise(xs)):
            is_last = at + 2 == len(xs)
            y1, y2 = tops[at] + _ROW, tops[at + 1]
            end = y2 - _HEAD * (is_last and down)
            middle = number((y1 + y2) / 2)
            path += f"C{number(x1)} {middle} {number(x2)} {middle} {number(x2)} {number(end)}"
            path += "" if is_last else f"v{number(_ROW)}"
        upper, lower = _head(xs[0], tops[0] + _ROW, _HEAD), _head(xs[-1], tops[-1], -_HEAD)
        return path, upper * up + lower * down


def _head(x: float, y: float, length: float) -> str:
    """An arrow head with its tip at this point."""
    return f"M{number(x)} {number(y)}l{number(-_HEAD / 2)} {number(length)}h{number(_HEAD)}z"


def _amount(text: str) -> str:
    if not text:
        return ""
    return f'<tspan class="amount" font-size="{number(_COUNT_FONT)}" dx="7">{text}</tspan>'


def _width(box: Box, label: str) -> float:
    # Also with room for the mark of a cycle, which is known only once the boxes are arranged.
    digits = (len(box.count) + 1) * _DIGIT_WIDTH + 7
    return 2 * _PADDING + text_width(label) * _CHARACTER_WIDTH + digits
