"""The tree of changed files."""

import re

import pytest

from agentjobs.local_git.patch import Diff, FileDiff
from agentjobs.web.dashboard.text.diff_view import render_diff_view
from agentjobs.web.dashboard.text.file_tree import file_tree


def tree_of(*paths: str, change: str = "modified") -> str:
    files = tuple(FileDiff(path, None, change, (), 1, 0) for path in paths)
    return file_tree(render_diff_view(Diff(files, len(files), True, 1, 0)).files)


def outline(html: str) -> str:
    """Folders with their entries in parentheses."""
    html = html.replace("</summary><ul>", "(").replace("</ul></details>", ")")
    html = re.sub(r" <span.*?</span>", "", html).replace("</li>", " ")
    return re.sub(r" +\)", ")", re.sub("<[^>]+>", "", html)).strip()


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["b.py", "a.py"], "a.py b.py"),
        (["z.py", "src/shop/b.py", "src/shop/a.py"], "src/shop(a.py b.py) z.py"),
        (["src/a/x.py", "src/b/c/y.py", "src/z.py"], "src(a(x.py) b/c(y.py) z.py)"),
        (["a/b", "a.b/c", "a"], "a(b) a.b(c) a"),
        (["a/" * 60 + "x"], "/".join("a" * 40) + "(" + "a/" * 20 + "x)"),
    ],
)
def test_folders_come_first_and_share_a_line_with_their_only_folder(paths, expected) -> None:
    assert outline(tree_of(*paths)) == expected


def test_a_tree_is_not_deeper_than_a_page_can_show() -> None:
    html = tree_of(*("x/" * depth + "file" for depth in range(30)))
    assert html.count("<details") == 8
    assert html.count("<a ") == 30


def test_links_name_the_kind_of_change_and_escape_names() -> None:
    html = tree_of("<b>\u202e.py", change="renamed")
    assert '<span class="quiet" title="renamed">R</span>' in html
    assert "&lt;b&gt;⟦U+202E⟧.py</a>" in html
