"""Draws stacked bars and lines as SVG, without scripts or inline styles.

Colours are classes of plots.css.
"""

from collections.abc import Callable, Sequence
from html import escape
from itertools import zip_longest

import msgspec
from markupsafe import Markup

from agentjobs.web.dashboard.plots.canvas import NARROW, WIDE, Canvas, Size, number
from agentjobs.web.dashboard.plots.scale import Unit, format_value, ticks


class PlotSeries(msgspec.Struct, frozen=True):
    """`css_class` is one of plots.css: s-1 to s-6, s-good, s-bad, s-warn, s-quiet. There is a value
    for each label."""

    name: str
    css_class: str
    values: tuple[float | None, ...]


class Plot(msgspec.Struct, frozen=True):
    """`labels` name the positions on the x axis, such as days; one for each value."""

    title: str
    labels: tuple[str, ...]
    series: tuple[PlotSeries, ...]
    unit: Unit = "count"
    empty: str = "No data yet."


class Drawing(msgspec.Struct, frozen=True):
    """Input of the macro `figure` in plot.html; `svg` is empty if there is nothing to draw."""

    title: str
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    empty: str


_MAX_BAR_WIDTH = 36.0
_Marks = Callable[[Canvas, Plot], None]


def stacked_bars(plot: Plot) -> Drawing:
    """One bar for each label, stacked from all series."""
    return _drawing(plot, max(_sums(plot), default=0.0), _draw_stacks)


def lines(plot: Plot) -> Drawing:
    """A value that is None leaves a gap."""
    return _drawing(plot, _highest(plot), _draw_lines)


def _drawing(plot: Plot, highest: float, draw: _Marks) -> Drawing:
    # Without a value other than zero, the plot shows its `empty` message.
    empty = (None,) * len(plot.labels)
    series = (
        msgspec.structs.replace(line, values=line.values if any(line.values) else empty)
        for line in plot.series
    )
    plot = msgspec.structs.replace(plot, series=tuple(series))
    known = [value for series in plot.series for value in series.values if value is not None]
    svg = "".join(_svg(plot, highest, draw, size) for size in (WIDE, NARROW)) if known else ""
    return Drawing(
        title=plot.title,
        svg=Markup(svg),  # noqa: S704 - the canvas escapes all text
        legend=tuple((series.name, series.css_class) for series in plot.series),
        rows=tuple(
            (label, tuple(format_value(series.values[index], plot.unit) for series in plot.series))
            for index, label in enumerate(plot.labels)
        ),
        empty=plot.empty,
    )


def _svg(plot: Plot, highest: float, draw: _Marks, size: Size) -> str:
    canvas = Canvas(size, ticks(highest, plot.unit), plot.unit, plot.labels)
    draw(canvas, plot)
    return canvas.svg(f"{plot.title}: {_summary(plot)}")


def _highest(plot: Plot) -> float:
    values = (value for series in plot.series for value in series.values)
    return max((value for value in values if value is not None), default=0.0)


def _sums(plot: Plot) -> list[float]:
    columns = zip_longest(*(series.values for series in plot.series))
    return [sum(value or 0.0 for value in column) for column in columns]


def _summary(plot: Plot) -> str:
    """The text alternative; a table next to the plot has all values."""
    summaries = []
    for series in plot.series:
        known = [(value, index) for index, value in enumerate(series.values) if value is not None]
        if known:
            value, index = max(known)
            highest = f"highest {format_value(value, plot.unit)} ({plot.labels[index]})"
            summaries.append(
                f"{series.name} {highest}, last {format_value(known[-1][0], plot.unit)}"
            )
    return "; ".join(summaries) + "."


def _title(plot: Plot, series: PlotSeries, index: int) -> str:
    return f"{plot.labels[index]}, {series.name}: {format_value(series.values[index], plot.unit)}"


def _draw_stacks(canvas: Canvas, plot: Plot) -> None:
    width = min(_MAX_BAR_WIDTH, canvas.slot * 0.7)
    for index in range(len(plot.labels)):
        bottom = 0.0
        for series in plot.series:
            value = series.values[index]
            if value:
                span = (bottom, bottom + value)
                left = canvas.x_at(index) - width / 2
                canvas.bar(series.css_class, left, width, span, _title(plot, series, index))
                bottom += value


def _draw_lines(canvas: Canvas, plot: Plot) -> None:
    for series in plot.series:
        points = [
            None if value is None else (canvas.x_at(index), canvas.y_at(value))
            for index, value in enumerate(series.values)
        ]
        canvas.add(f'<g class="{escape(series.css_class)}">')
        for segment in _segments(points):
            canvas.add(_line(segment))
        for index, point in enumerate(points):
            if point is not None:
                canvas.dot(*point, _title(plot, series, index))
        canvas.add("</g>")


def _segments(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """The segments between gaps."""
    segments: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            segments[-1].append(point)
        elif segments[-1]:
            segments.append([])
    return [segment for segment in segments if segment]


def _line(segment: Sequence[tuple[float, float]]) -> str:
    if len(segment) == 1:
        return (
            f'<circle class="dot" cx="{number(segment[0][0])}" cy="{number(segment[0][1])}" r="2"/>'
        )
    points = " ".join(f"{number(x)},{number(y)}" for x, y in segment)
    return f'<polyline class="curve" points="{points}"/>'
