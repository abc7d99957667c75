"""Plots are valid SVG, show gaps and zeroes, fit both sizes and have a text alternative."""

from itertools import pairwise, product
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.web.dashboard.plots.canvas import _CHARACTER_WIDTH
from agentjobs.web.dashboard.plots.plots import Drawing, Plot, PlotSeries, lines, stacked_bars
from agentjobs.web.dashboard.plots.scale import Unit, format_tick, format_value, ticks
from agentjobs.web.pages import template_environment

KINDS = [stacked_bars, lines]


def plot_of(*values: float | None, unit: Unit = "count", labels: tuple[str, ...] = ()) -> Plot:
    names = labels or tuple(f"{day} Mar" for day in range(1, len(values) + 1))
    series = (PlotSeries("done", "s-good", values), PlotSeries("failed", "s-bad", values[::-1]))
    return Plot("Jobs", names, series, unit)


def trees(drawing: Drawing) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(f"<all>{drawing.svg}</all>"))


def texts(tree: ElementTree.Element, anchor: str) -> list[tuple[float, str]]:
    elements = [element for element in tree.iter("text") if element.get("text-anchor") == anchor]
    return [(float(element.attrib["x"]), element.text or "") for element in elements]


@pytest.mark.parametrize("draw", KINDS)
def test_every_mark_has_a_title_and_the_plot_a_summary(draw) -> None:
    drawing = draw(plot_of(3, None, 7))
    wide, narrow = trees(drawing)
    for tree in (wide, narrow):
        titles = [title.text for title in tree.iter("title")]
        assert {"1 Mar, done: 3", "3 Mar, done: 7", "1 Mar, failed: 7"} <= set(titles)
        assert not [title for title in titles if title and title.startswith("2 Mar")]
        assert tree.get("role") == "img"
        assert "done highest 7 (3 Mar), last 7" in (tree.get("aria-label") or "")
    assert drawing.rows[1] == ("2 Mar", ("none", "none"))


@pytest.mark.parametrize("draw", KINDS)
def test_labels_do_not_touch_each_other_or_the_edge(draw, subtests: pytest.Subtests) -> None:
    labels = ["1", "29 Feb", "2026-02-28 12:00 and more"]
    for label, count in product(labels, [1, 2, 7, 30, 90, 400]):
        plot = plot_of(*range(count), unit="ms", labels=(label,) * count)
        with subtests.test(label=label, count=count):
            assert_labels_are_apart(draw(plot))


def assert_labels_are_apart(drawing: Drawing) -> None:
    for tree in trees(drawing):
        width = float(tree.attrib["viewBox"].split()[2])
        placed = texts(tree, "middle")
        assert placed
        ends = [
            (x - len(t) * 13 * _CHARACTER_WIDTH / 2, x + len(t) * 13 * _CHARACTER_WIDTH / 2)
            for x, t in placed
        ]
        assert all(left[1] + 2 < right[0] for left, right in pairwise(ends))
        assert ends[0][0] >= -0.1
        assert ends[-1][1] <= width + 0.1
        assert all(x - len(t) * 13 * _CHARACTER_WIDTH >= 0 for x, t in texts(tree, "end"))


@pytest.mark.parametrize("draw", KINDS)
def test_very_small_and_very_large_numbers_are_drawn(draw, subtests: pytest.Subtests) -> None:
    units: list[Unit] = ["count", "ms", "usd"]
    for unit, value in product(units, [0, 1, 1e-9, 0.004, 999, 1e6, 1e17, 1e300]):
        with subtests.test(unit=unit, value=value):
            assert_marks_are_inside(draw(plot_of(value, 0, value, unit=unit)))


def assert_marks_are_inside(drawing: Drawing) -> None:
    for tree in trees(drawing):
        _, _, width, height = map(float, tree.attrib["viewBox"].split())
        for rect in tree.iter("rect"):
            x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            assert 0 <= x <= x + w <= width
            assert 0 <= y <= y + h <= height
        assert max(len(text) for _, text in texts(tree, "end")) <= 10


@pytest.mark.parametrize("draw", KINDS)
@pytest.mark.parametrize("values", [(), (None,), (None, None)])
def test_a_plot_without_values_is_replaced_by_text(draw, values) -> None:
    drawing = draw(plot_of(*values))
    assert drawing.svg == ""
    assert drawing.empty == "No data yet."


def test_a_small_value_is_visible_beside_a_large_one() -> None:
    wide = trees(stacked_bars(plot_of(1, 1_000_000)))[0]
    heights = {float(rect.attrib["height"]) for rect in wide.iter("rect")}
    assert min(heights) >= 1


def test_a_line_has_a_gap_where_a_value_is_missing() -> None:
    plot = Plot("x", tuple("abcdef"), (PlotSeries("a", "s-1", (1, 2, None, 4, None, 6)),))
    wide = trees(lines(plot))[0]
    assert len(list(wide.iter("polyline"))) == 1
    assert len(list(wide.iter("circle"))) == 4 + 2


def test_stacks_are_as_high_as_their_sum() -> None:
    plot = plot_of(30, 10)
    names = [text for _, text in texts(trees(stacked_bars(plot))[0], "end")]
    assert names == ["0", "10", "20", "30", "40"]


@pytest.mark.parametrize(
    ("highest", "unit", "expected"),
    [
        (0, "count", ["0", "1"]),
        (1, "count", ["0", "1"]),
        (3, "count", ["0", "1", "2", "3"]),
        (37, "count", ["0", "10", "20", "30", "40"]),
        (3_700, "count", ["0", "1k", "2k", "3k", "4k"]),
        (800, "ms", ["0", "200 ms", "400 ms", "600 ms", "800 ms"]),
        (50_000, "ms", ["0", "15 s", "30 s", "45 s", "1 min"]),
        (600_000, "ms", ["0", "5 min", "10 min"]),
        (90_000_000, "ms", ["0", "12 h", "1 d", "1.5 d"]),
        (0.07, "usd", ["$0", "$0.02", "$0.04", "$0.06", "$0.08"]),
        (12.5, "usd", ["$0", "$5", "$10", "$15"]),
        (2.0, "usd", ["$0", "$0.50", "$1", "$1.50", "$2"]),
    ],
)
def test_ticks_are_round_numbers(highest, unit: Unit, expected: list[str]) -> None:
    assert [format_tick(tick, unit) for tick in ticks(highest, unit)] == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "count", "none"),
        (1_234_567, "count", "1,234,567"),
        (0.25, "count", "0.25"),
        (90_000, "ms", "1.5 min"),
        (12, "ms", "12 ms"),
        (0, "ms", "0 ms"),
        (1_234.5, "usd", "$1,234.50"),
        (0.0004, "usd", "$0.0004"),
        (0, "usd", "$0.00"),
    ],
)
def test_values_are_formatted_for_reading(value, unit: Unit, expected: str) -> None:
    assert format_value(value, unit) == expected


@given(
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    st.sampled_from(["count", "ms", "usd"]),
)
def test_an_axis_reaches_the_highest_value_with_few_ticks(highest: float, unit: Unit) -> None:
    steps = ticks(highest, unit)
    assert steps[0] == 0
    assert steps[-1] >= highest * 0.999_999
    assert 2 <= len(steps) <= 6


@given(
    st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])),
    st.lists(st.none() | st.floats(min_value=0, max_value=1e300), max_size=5),
)
def test_any_name_and_number_makes_valid_svg(name: str, values) -> None:
    plot = Plot(name, (name,) * len(values), (PlotSeries(name, "s-1", tuple(values)),))
    for draw in KINDS:
        for tree in trees(draw(plot)):
            assert not [
                element for element in tree.iter() if {"style", "onload"} & set(element.keys())
            ]


def test_the_figure_has_a_legend_and_a_table_of_the_same_numbers() -> None:
    figure = template_environment("agentjobs.web.dashboard").get_template("plot.html").module.figure
    html = figure(stacked_bars(plot_of(1, None, unit="usd")))
    assert '<th scope="row">1 Mar</th><td>$1.00</td><td>none</td>' in html
    assert html.count("<li>") == 2
    assert "style=" not in html
    hostile = Plot(
        "<b>", ("<i>",), (PlotSeries("<u>", 's-1"><b>', (1,)), PlotSeries("x", "", (1,)))
    )
    for draw in KINDS:
        shown = figure(draw(hostile))
        assert not {"<b>", "<i>", "<u>"} & {shown[at : at + 3] for at in range(len(shown))}
    assert "No data yet." in figure(stacked_bars(plot_of()))
