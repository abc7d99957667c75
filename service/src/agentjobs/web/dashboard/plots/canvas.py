"""The SVG canvas of a plot: sizes, axes, grid and labels."""

from collections.abc import Sequence
from html import escape

import msgspec

from agentjobs.web.dashboard.plots.scale import Unit, format_tick


class Size(msgspec.Struct, frozen=True):
    """One of the two renderings of a plot; the stylesheet shows the one that fits."""

    name: str
    width: int
    height: int
    font: int
    max_label_length: int


WIDE = Size("wide", 760, 220, 13, 16)
NARROW = Size("narrow", 400, 200, 13, 10)

_TOP = 10.0
_CHARACTER_WIDTH = 0.62
_LABEL_GAP = 8.0


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    def __init__(
        self, size: Size, ticks: Sequence[float], unit: Unit, labels: Sequence[str]
    ) -> None:
        self.size = size
        names = [format_tick(tick, unit) for tick in ticks]
        self.left = 10.0 + max(self._width(name) for name in names)
        self.right = size.width - 6.0
        self.bottom = size.height - size.font - 12.0
        self._highest = ticks[-1]
        self.slot = (self.right - self.left) / max(1, len(labels))
        self._parts: list[str] = []
        self._draw_grid(ticks, names)
        self._draw_labels(labels)

    def x_at(self, index: int) -> float:
        return self.left + self.slot * (index + 0.5)

    def y_at(self, value: float) -> float:
        fraction = min(1.0, value / self._highest)
        return self.bottom - fraction * (self.bottom - _TOP)

    def add(self, svg: str) -> None:
        self._parts.append(svg)

    def bar(
        self, css_class: str, left: float, width: float, span: tuple[float, float], title: str
    ) -> None:
        """Every value above zero gets a visible bar."""
        bottom, top = self.y_at(span[0]), self.y_at(span[1])
        top = min(top, bottom - 1.5) if span[1] > span[0] else bottom
        height = max(0.0, bottom - top - 0.5)
        # A gap of half a unit separates stacked bars without relying on colour.
        self.add(
            f'<rect class="mark {escape(css_class)}" x="{number(left)}" y="{number(top)}"'
            f' width="{number(max(1.0, width - 1.0))}" height="{number(height)}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def dot(self, x: float, y: float, title: str) -> None:
        radius = 3.0 if self.slot > 10 else 1.5
        self.add(
            f'<circle class="dot" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}">'
            f"<title>{escape(title)}</title></circle>"
        )

    def svg(self, summary: str) -> str:
        size = self.size
        return (
            f'<svg class="plot plot-{size.name}" viewBox="0 0 {size.width} {size.height}"'
            f' role="img" aria-label="{escape(summary)}">{"".join(self._parts)}</svg>'
        )

    def _width(self, text: str) -> float:
        return len(text) * self.size.font * _CHARACTER_WIDTH

    def _text(self, x: float, y: float, anchor: str, text: str) -> None:
        self.add(
            f'<text class="label" x="{number(x)}" y="{number(y)}" font-size="{self.size.font}"'
            f' text-anchor="{anchor}">{escape(text)}</text>'
        )

    def _draw_grid(self, ticks: Sequence[float], names: Sequence[str]) -> None:
        for tick, name in zip(ticks, names, strict=True):
            y = self.y_at(tick)
            css_class = "grid" if tick else "axis"
            self.add(
                f'<line class="{css_class}" x1="{number(self.left)}" y1="{number(y)}"'
                f' x2="{number(self.right)}" y2="{number(y)}"/>'
            )
            self._text(self.left - 5, y + self.size.font * 0.35, "end", name)

    def _draw_labels(self, labels: Sequence[str]) -> None:
        """As many labels as fit, evenly spaced, starting with the first."""
        max_length = self.size.max_label_length
        shortened = [
            text if len(text) <= max_length else f"{text[: max_length - 1]}…" for text in labels
        ]
        widest = max((self._width(text) for text in shortened), default=0.0)
        interval = 1
        while self.slot * interval < widest + _LABEL_GAP and interval < len(shortened):
            interval += 1
        edge, free_from = float(self.size.width), 0.0
        for index in range(0, len(shortened), interval):
            half = self._width(shortened[index]) / 2
            # Labels at the edges move inwards; those that would overlap are left out.
            x = min(max(self.x_at(index), half), edge - half)
            if x - half >= free_from:
                self._text(x, self.size.height - 6.0, "middle", shortened[index])
                free_from = x + half + _LABEL_GAP / 2
