"""Plots drawn as SVG on the server: bars, stacked bars and lines; no script, no style.

Owns where marks and labels are; their colours are classes of plots.css. Knows nothing of what is
counted. Values are not negative: less than nothing is drawn as nothing.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.canvas import NARROW, WIDE, Canvas, Size, number
from agentjobs.web.dashboard.plots.scale import Unit, ticks, written
from agentjobs.web.dashboard.text.visible_text import visible


class PlotSeries(msgspec.Struct, frozen=True):
    """`css_class` is one of plots.css: s-1 to s-6, s-good, s-bad, s-warn, s-quiet."""

    name: str
    css_class: str
    values: tuple[float | None, ...]


class Plot(msgspec.Struct, frozen=True):
    """`labels` name the places along the bottom, such as days, and are as many as the values."""

    title: str
    labels: tuple[str, ...]
    series: tuple[PlotSeries, ...]
    unit: Unit = "count"
    empty: str = "Nothing to show yet."


class Drawing(msgspec.Struct, frozen=True):
    """What the macro `figure` of plot.html shows; `svg` is empty when there is nothing to draw."""

    title: str
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    empty: str


_WIDEST_BAR = 36.0
_Marks = Callable[[Canvas, Plot], None]


def bars(plot: Plot) -> Drawing:
    """Beside each other, a group for each label."""
    return _drawing(plot, _highest(plot), _draw_bars)


def stacked_bars(plot: Plot) -> Drawing:
    """On top of each other: the height is their sum."""
    return _drawing(plot, max(_sums(plot), default=0.0), _draw_stacks)


def lines(plot: Plot) -> Drawing:
    """A value that is None leaves a gap."""
    return _drawing(plot, _highest(plot), _draw_lines)


def _drawing(plot: Plot, highest: float, draw: _Marks) -> Drawing:
    plot = _cleaned(plot)
    known = [value for series in plot.series for value in series.values if value is not None]
    svg = "".join(_svg(plot, highest, draw, size) for size in (WIDE, NARROW)) if known else ""
    return Drawing(
        title=plot.title,
        svg=Markup(svg),  # noqa: S704 - made by the canvas, which escapes
        legend=tuple((series.name, series.css_class) for series in plot.series),
        rows=tuple(
            (label, tuple(written(series.values[at], plot.unit) for series in plot.series))
            for at, label in enumerate(plot.labels)
        ),
        empty=plot.empty,
    )


def _svg(plot: Plot, highest: float, draw: _Marks, size: Size) -> str:
    canvas = Canvas(size, ticks(highest, plot.unit), plot.unit, plot.labels)
    draw(canvas, plot)
    return canvas.svg(f"{plot.title}: {_summary(plot)}")


def _cleaned(plot: Plot) -> Plot:
    """As many values as labels, every one of them a number that can be drawn, or None."""
    width = len(plot.labels)
    series = tuple(
        PlotSeries(
            visible(each.name),
            each.css_class,
            tuple(map(_drawable, (*each.values[:width], *[None] * (width - len(each.values))))),
        )
        for each in plot.series
    )
    labels = tuple(map(visible, plot.labels))
    return Plot(visible(plot.title), labels, series, plot.unit, plot.empty)


def _drawable(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else max(0.0, float(value))


def _highest(plot: Plot) -> float:
    values = (value for series in _cleaned(plot).series for value in series.values)
    return max((value for value in values if value is not None), default=0.0)


def _sums(plot: Plot) -> list[float]:
    columns = zip(*(series.values for series in _cleaned(plot).series), strict=True)
    # Two that can be drawn may have a sum that cannot.
    return [min(sum(value or 0.0 for value in column), 1e300) for column in columns]


def _summary(plot: Plot) -> str:
    """What a reader who sees no picture gets first; all numbers are in the table beside it."""
    said = []
    for series in plot.series:
        known = [(value, at) for at, value in enumerate(series.values) if value is not None]
        if known:
            value, at = max(known)
            highest = f"highest {written(value, plot.unit)} ({plot.labels[at]})"
            said.append(f"{series.name} {highest}, last {written(known[-1][0], plot.unit)}")
    return "; ".join(said) + "."


def _title(plot: Plot, series: PlotSeries, at: int) -> str:
    return f"{plot.labels[at]}, {series.name}: {written(series.values[at], plot.unit)}"


def _draw_bars(canvas: Canvas, plot: Plot) -> None:
    width = min(_WIDEST_BAR, canvas.slot * 0.8 / max(1, len(plot.series)))
    for at in range(len(plot.labels)):
        left = canvas.middle(at) - width * len(plot.series) / 2
        for place, series in enumerate(plot.series):
            value = series.values[at]
            if value is not None:
                title = _title(plot, series, at)
                canvas.bar(series.css_class, left + place * width, width, (0.0, value), title)


def _draw_stacks(canvas: Canvas, plot: Plot) -> None:
    width = min(_WIDEST_BAR, canvas.slot * 0.7)
    for at in range(len(plot.labels)):
        below = 0.0
        for series in plot.series:
            value = series.values[at]
            if value:
                span = (below, below + value)
                left = canvas.middle(at) - width / 2
                canvas.bar(series.css_class, left, width, span, _title(plot, series, at))
                below += value


def _draw_lines(canvas: Canvas, plot: Plot) -> None:
    for series in plot.series:
        places = [
            None if value is None else (canvas.middle(at), canvas.height_of(value))
            for at, value in enumerate(series.values)
        ]
        canvas.add(f'<g class="{escape(series.css_class)}">')
        for run in _runs(places):
            canvas.add(_line(run))
        for at, place in enumerate(places):
            if place is not None:
                canvas.dot(*place, _title(plot, series, at))
        canvas.add("</g>")


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """The stretches between the gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is not None:
            runs[-1].append(place)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(run: Sequence[tuple[float, float]]) -> str:
    if len(run) == 1:
        return f'<circle class="dot" cx="{number(run[0][0])}" cy="{number(run[0][1])}" r="2"/>'
    points = " ".join(f"{number(x)},{number(y)}" for x, y in run)
    return f'<polyline class="curve" points="{points}"/>'
