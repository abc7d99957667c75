"""What a page shows of a diff at once, what it leaves for later, and that both are safe."""

from collections.abc import Callable

import pytest
from jinja2 import Environment
from markupsafe import Markup

from agentjobs.local_git.patch import Diff, DiffLine, FileDiff
from agentjobs.web.dashboard.text.diff_cache import RenderedDiffCache
from agentjobs.web.dashboard.text.diff_view import (
    CommitRange,
    DiffView,
    render_diff_view,
    render_file_view,
)
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs.web.pages import template_environment

ENDS = CommitRange("rep_1", "a" * 40, "b" * 40)


def file_of(path: str, *lines: DiffLine, complete: bool = True, counted: bool = True) -> FileDiff:
    hunk = DiffLine("hunk", "@@ -1 +1 @@")
    return FileDiff(path, None, "modified", (hunk, *lines), 1, 0, complete, counted)


def added(*texts: str) -> list[DiffLine]:
    return [DiffLine("added", text, None, number) for number, text in enumerate(texts, 1)]


def diff_of(*files: FileDiff) -> Diff:
    return Diff(files, len(files), True, len(files), 0)


@pytest.fixture
def templates() -> Environment:
    environment = template_environment("agentjobs.web.dashboard")
    environment.filters["visible"] = visible
    return environment


@pytest.fixture
def shown(templates: Environment) -> Callable[[DiffView], str]:
    def render(view: DiffView) -> str:
        macros = templates.get_template("diff.html").module
        return str(macros.diff(view, lambda index: f"/part?file={index}&x"))  # type: ignore[attr-defined] # a macro

    return render


def test_both_sides_are_coloured_as_text_of_their_own() -> None:
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
def test_markup_and_deceiving_characters_are_shown_as_what_they_are(path: str) -> None:
    (file,) = render_diff_view(diff_of(file_of(path, *added("<img src=x>\u202e\x00&")))).files
    text = Markup(file.lines[1].html).striptags()
    assert text == "<img src=x>⟦U+202E⟧\ufffd&"
    assert "<img" not in file.lines[1].html


def test_what_is_too_long_to_be_coloured_is_plain() -> None:
    long_line, many = added("x = " + "1" * 2_000), added(*["x = 1"] * 1_501)
    (file,) = render_diff_view(diff_of(file_of("a.py", *long_line))).files
    assert "<span" not in file.lines[1].html
    alone = render_file_view(file_of("a.py", *many), 1)
    assert len(alone.lines) == 1_502
    assert "<span" not in alone.lines[-1].html
    assert "<span" in render_file_view(file_of("a.py", *many[:1_499]), 1).lines[-1].html


def test_large_files_and_those_after_many_lines_are_fetched_later() -> None:
    small, large = added(*["x"] * 399), added(*["x"] * 400)
    files = [file_of("a", *small)] * 6 + [file_of("b", *large), file_of("c", *added("x"))]
    view = render_diff_view(diff_of(*files))
    assert [file.lazy for file in view.files] == [False] * 5 + [True, True, True]
    assert all(not file.lines for file in view.files if file.lazy)


def test_a_file_of_a_known_language_may_have_no_lines() -> None:
    renamed = FileDiff("a.py", "b.py", "renamed", (), 0, 0)
    cut = file_of("c.py", *added("x = 1"), complete=False)
    assert [file.lines for file in render_diff_view(diff_of(renamed, cut)).files] == [(), ()]


def test_a_file_that_was_cut_is_fetched_when_it_is_opened() -> None:
    cut = file_of("a", *added("x"), complete=False)
    assert render_diff_view(diff_of(cut)).files[0].lazy
    assert not render_file_view(cut, 1).lazy


def test_the_page_links_to_what_it_does_not_show(shown: Callable[[DiffView], str]) -> None:
    html = shown(render_diff_view(diff_of(file_of("a", *added("x")), file_of("b", complete=False))))
    assert '<details class="file" id="file-1" open>' in html
    assert '<details class="file" id="file-2" data-lazy="/part?file=2&amp;x">' in html
    assert '<a href="/part?file=2&amp;x">' in html
    assert 'href="#file-2"' in html
    assert html.count("<table") == 1
    assert "style=" not in html


def test_nothing_in_a_name_becomes_markup(shown: Callable[[DiffView], str]) -> None:
    html = shown(
        render_diff_view(diff_of(file_of('"><script>\u202e.py', *added("x")), file_of("b")))
    )
    assert "<script>" not in html
    assert "\u202e" not in html


def test_a_region_takes_the_focus_only_where_it_may_scroll(
    shown: Callable[[DiffView], str],
) -> None:
    assert "tabindex" not in shown(render_diff_view(diff_of(file_of("a", *added("x" * 40)))))
    assert 'tabindex="0"' in shown(render_diff_view(diff_of(file_of("a", *added("x" * 41)))))


def test_files_nobody_counted_and_empty_changes_say_so(shown: Callable[[DiffView], str]) -> None:
    view = render_diff_view(diff_of(file_of("a", complete=False, counted=False)))
    assert not view.counted
    assert "very large" in shown(view)
    assert "No files changed" in shown(render_diff_view(diff_of()))
    assert "2 of 9 files" in shown(
        render_diff_view(Diff((file_of("a"), file_of("b")), 9, False, 9, 9))
    )


def test_what_was_rendered_once_is_remembered_for_these_commits_only() -> None:
    cache = RenderedDiffCache()
    first = render_diff_view(diff_of(file_of("a.py", *added("x = 1"))), ENDS, cache)
    again = render_diff_view(diff_of(file_of("a.py", *added("x = 1"))), ENDS, cache)
    assert again.files[0].lines[1].html is first.files[0].lines[1].html
    elsewhere = CommitRange("rep_2", ENDS.base, ENDS.head)
    other = render_diff_view(diff_of(file_of("a.py", *added("y = 2"))), elsewhere, cache)
    assert other.files[0].lines[1].html.startswith("y")
    more = render_diff_view(diff_of(file_of("a.py", *added("x = 1", "z = 3"))), ENDS, cache)
    assert more.files[0].lines[2].html.startswith("z")


def test_the_memory_of_rendered_diffs_is_bounded() -> None:
    cache = RenderedDiffCache(max_bytes=4_000)
    made: list[str] = []

    def ask(name: str, size: int = 500) -> None:
        cache.get((name,), lambda: (made.append(name), (Markup("x" * size),))[1])

    for name in "abcdefghag":
        ask(name)
    assert "".join(made) == "abcdefgha"
    ask("h", 5_000)
    ask("!", 5_000)
    ask("!", 5_000)
    assert "".join(made) == "abcdefgha!!"
    assert cache._diffs.weight <= 4_000
