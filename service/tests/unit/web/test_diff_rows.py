"""The rows of a diff in both views, their anchors, and what is inserted below lines."""

import re

from markupsafe import Markup

from agentjobs.web.dashboard.text.diff_rows import (
    NO_INSERTS,
    LineView,
    Place,
    split_rows,
    unified_rows,
)


def line(kind: str, text: str, old: int | None = None, new: int | None = None) -> LineView:
    return LineView(kind, Markup(text), old, new)  # type: ignore[arg-type] # parametrized


LINES = [
    line("hunk", "@@"),
    line("context", "same", 1, 1),
    line("removed", "one", 2),
    line("removed", "two", 3),
    line("note", "No newline", None, None),
    line("added", "eins", None, 2),
    line("context", "end", 4, 3),
    line("added", "more", None, 4),
]


def cells(html: str) -> list[list[str]]:
    """The texts of each row; `-` for a half without a line."""
    rows = str(html).replace('<td class="none" colspan="2"></td>', "<td>-</td>").splitlines()
    return [[re.sub("<[^>]+>", "", cell) for cell in row.split("</td>")[:-1]] for row in rows]


def test_the_unified_view_has_a_row_for_every_line() -> None:
    assert cells(unified_rows("f", LINES, NO_INSERTS)) == [
        ["", "", "@@"],
        ["1", "1", "same"],
        ["2", "", "one"],
        ["3", "", "two"],
        ["", "", "No newline"],
        ["", "2", "eins"],
        ["4", "3", "end"],
        ["", "4", "more"],
    ]


def test_the_split_view_shows_lines_beside_those_that_replace_them() -> None:
    assert cells(split_rows("f", LINES, NO_INSERTS)) == [
        ["", "@@"],
        ["1", "same", "1", "same"],
        ["2", "one", "2", "eins"],
        ["3", "two", "-"],
        ["", "No newline", "-"],
        ["4", "end", "3", "end"],
        ["-", "4", "more"],
    ]


def test_both_views_have_the_same_anchors() -> None:
    expected = ["fR1", "fL2", "fL3", "fR2", "fR3", "fR4"]
    for rows in (unified_rows, split_rows):
        html = rows("f", LINES, NO_INSERTS)
        assert sorted(re.findall('id="(\\w+)"', html)) == sorted(expected)


def test_inserts_are_below_the_line_of_their_place() -> None:
    inserts: dict[Place, Markup] = {
        ("right", 2): Markup("<b>new</b>"),
        ("left", 4): Markup("old"),
        ("left", 99): Markup("nowhere"),
    }
    for rows in (unified_rows, split_rows):
        html = rows("f", LINES, inserts)
        assert html.count('<tr class="insert">') == 2
        following = re.findall(r'>(\w+)</td></tr>\n<tr class="insert"><td[^>]+>(.+?)</td>', html)
        assert following == [("eins", "<b>new</b>"), ("end", "old")]


def test_lines_that_git_never_writes_are_kept() -> None:
    lines = [line("added", "a", None, 1), line("removed", "b", 1), line("added", "c", None, 2)]
    assert cells(split_rows("f", lines, NO_INSERTS)) == [["-", "1", "a"], ["1", "b", "2", "c"]]
