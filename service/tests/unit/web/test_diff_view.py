"""Which files of a diff a page renders at once, which it loads later, and that both are escaped."""

from collections.abc import Callable

import pytest
from jinja2 import Environment
from markupsafe import Markup

from agentjobs.local_git.patch import Diff, DiffLine, FileDiff
from agentjobs.web.dashboard.diff_pages import DiffPage
from agentjobs.web.dashboard.text.diff_view import (
    DiffView,
    render_diff_view,
    render_file_view,
)
from agentjobs.web.dashboard.text.highlighting import language_of_file
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs.web.dashboard.text_filters import FILTERS
from agentjobs.web.pages import template_environment


def file_of(path: str, *lines: DiffLine, complete: bool = True, counted: bool = True) -> FileDiff:
    hunk = DiffLine("hunk", "@@ -1 +1 @@")
    return FileDiff(path, None, "modified", (hunk, *lines), 1, 0, complete, counted)


def added_lines(*texts: str) -> list[DiffLine]:
    return [DiffLine("added", text, None, number) for number, text in enumerate(texts, 1)]


def diff_of(*files: FileDiff) -> Diff:
    return Diff(files, len(files), True, len(files), 0)


@pytest.fixture
def templates() -> Environment:
    environment = template_environment("agentjobs.web.dashboard")
    environment.filters.update(FILTERS, visible=visible)
    return environment


@pytest.fixture
def render_html(templates: Environment) -> Callable[[DiffView], str]:
    def render(view: DiffView) -> str:
        macros = templates.get_template("diff.html").module
        changes = DiffPage(
            view=view, address="/all", file_address=lambda index: f"/part?file={index}&x"
        )
        return str(macros.diff(changes))  # type: ignore[attr-defined] # a macro

    return render


def test_each_side_is_highlighted_separately() -> None:
    # The first lookup of a language counts for the limit of CPU time.
    language_of_file("a.py")
    lines = (
        DiffLine("context", "x = 1", 1, 1),
        DiffLine("removed", 'y = """never closed', 2, None),
        DiffLine("added", "y = 2  # new", None, 2),
        DiffLine("context", "z = 3", 3, 3),
    )
    (file,) = render_diff_view(diff_of(file_of("a.py", *lines))).files
    assert [line.html for line in file.lines] == [
        "@@ -1 +1 @@",
        'x = <span class="m">1</span>',
        'y = <span class="s">"""never closed</span>',
        'y = <span class="m">2</span>  <span class="c"># new</span>',
        'z = <span class="m">3</span>',
    ]
    assert [(line.old_number, line.new_number) for line in file.lines[1:]] == [
        (1, 1),
        (2, None),
        (None, 2),
        (3, 3),
    ]


@pytest.mark.parametrize("path", ["a.py", "a.yaml", "a.txt"])
def test_markup_is_escaped_and_deceptive_characters_are_shown_by_code_point(path: str) -> None:
    (file,) = render_diff_view(diff_of(file_of(path, *added_lines("<img src=x>\u202e\x00&")))).files
    text = Markup(file.lines[1].html).striptags()
    assert text == "<img src=x>⟦U+202E⟧\ufffd&"
    assert "<img" not in file.lines[1].html


def test_a_line_that_is_too_long_is_not_highlighted() -> None:
    long_line = added_lines("x = " + "1" * 2_000)
    (file,) = render_diff_view(diff_of(file_of("a.py", *long_line))).files
    assert "<span" not in file.lines[1].html


def test_large_files_and_those_after_many_lines_are_fetched_later() -> None:
    small, large = added_lines(*["x"] * 399), added_lines(*["x"] * 400)
    files = [file_of("a", *small)] * 6 + [file_of("b", *large), file_of("c", *added_lines("x"))]
    view = render_diff_view(diff_of(*files))
    assert [file.lazy for file in view.files] == [False] * 5 + [True, True, True]
    assert all(not file.lines for file in view.files if file.lazy)


def test_a_file_of_a_known_language_may_have_no_lines() -> None:
    renamed = FileDiff("a.py", "b.py", "renamed", (), 0, 0)
    cut = file_of("c.py", *added_lines("x = 1"), complete=False)
    assert [file.lines for file in render_diff_view(diff_of(renamed, cut)).files] == [(), ()]


def test_a_truncated_file_is_fetched_when_it_is_opened() -> None:
    cut = file_of("a", *added_lines("x"), complete=False)
    assert render_diff_view(diff_of(cut)).files[0].lazy
    assert not render_file_view(cut, 1).lazy


def test_the_page_links_to_files_it_loads_later(render_html: Callable[[DiffView], str]) -> None:
    view = render_diff_view(diff_of(file_of("a", *added_lines("x")), file_of("b", complete=False)))
    first, second = (file.anchor for file in view.files)
    html = render_html(view)
    assert f'<details class="file" id="{first}" open>' in html
    assert f'<details class="file" id="{second}" data-lazy="/part?file=2&amp;x">' in html
    assert '<a href="/part?file=2&amp;x">' in html
    assert f'href="#{second}"' in html
    assert html.count("<table") == 1
    assert "style=" not in html


def test_a_file_name_is_escaped(render_html: Callable[[DiffView], str]) -> None:
    html = render_html(
        render_diff_view(diff_of(file_of('"><script>\u202e.py', *added_lines("x")), file_of("b")))
    )
    assert "<script>" not in html
    assert "\u202e" not in html


def test_a_region_takes_the_focus_only_where_it_may_scroll(
    render_html: Callable[[DiffView], str],
) -> None:
    assert "tabindex" not in render_html(
        render_diff_view(diff_of(file_of("a", *added_lines("x" * 40))))
    )
    assert 'tabindex="0"' in render_html(
        render_diff_view(diff_of(file_of("a", *added_lines("x" * 41))))
    )


def test_uncounted_files_and_empty_diffs_are_labelled(
    render_html: Callable[[DiffView], str],
) -> None:
    view = render_diff_view(diff_of(file_of("a", complete=False, counted=False)))
    assert not view.counted
    assert "very large" in render_html(view)
    assert "No files changed" in render_html(render_diff_view(diff_of()))
    assert "2 of 9 files" in render_html(
        render_diff_view(Diff((file_of("a"), file_of("b")), 9, False, 9, 9))
    )
