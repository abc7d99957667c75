"""The cache of rendered pull request comparisons."""

from markupsafe import Markup

from agentjobs.local_git.history import Commit
from agentjobs.web.dashboard.pulls.comparison_cache import Comparison, ComparisonCache
from agentjobs.web.dashboard.text.diff_view import CommitRange, DiffView, FileView, LineView


def make_comparison(head: str, *, length: int = 500, complete: bool = True) -> Comparison:
    line = LineView("added", Markup("x" * length), None, 1)
    file = FileView(1, "a.py", None, "modified", 1, 0, True, complete, False, False, (line,))
    commit = Commit("c" * 40, "Ada", "ada@example.com", 0, "Fix it", "")
    view = DiffView((file,), 1, 1, 0, complete=True, counted=True)
    return Comparison(CommitRange("repo_1", "base", head), [commit], 1, view)


def test_a_comparison_is_found_by_its_repository_and_both_commits() -> None:
    cache, comparison = ComparisonCache(), make_comparison("head")
    cache.add(comparison)
    assert cache.find(CommitRange("repo_1", "base", "head")) is comparison
    for other in (("repo_2", "base", "head"), ("repo_1", "b", "head"), ("repo_1", "base", "h")):
        assert cache.find(CommitRange(*other)) is None


def test_the_least_recently_used_comparison_is_dropped_first() -> None:
    cache = ComparisonCache(max_length=3_500)
    for head in "abcd":
        cache.add(make_comparison(head))
    assert cache.find(CommitRange("repo_1", "base", "a")) is not None
    cache.add(make_comparison("e"))
    cached = [head for head in "abcde" if cache.find(CommitRange("repo_1", "base", head))]
    assert cached == ["a", "c", "d", "e"]


def test_very_large_or_incomplete_comparisons_are_not_cached() -> None:
    cache = ComparisonCache(max_length=4_000)
    cache.add(make_comparison("large", length=1_000))
    cache.add(make_comparison("cut", complete=False))
    assert cache.find(CommitRange("repo_1", "base", "large")) is None
    assert cache.find(CommitRange("repo_1", "base", "cut")) is None
