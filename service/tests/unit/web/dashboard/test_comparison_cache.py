"""Which comparisons of a pull request are cached."""

from markupsafe import Markup

from agentjobs.web.dashboard.pulls.comparison_cache import Comparison
from agentjobs.web.dashboard.text.diff_view import CommitRange, DiffView, FileView, LineView


def make_comparison(*, complete: bool, length: int = 500) -> Comparison:
    line = LineView("added", Markup("x" * length), None, 1)
    file = FileView(1, "a.py", None, "modified", 1, 0, True, complete, False, False, (line,))
    view = DiffView((file,), 1, 1, 0, complete=True, counted=True)
    return Comparison(CommitRange("repo_1", "base", "head"), [], 1, view)


def test_a_diff_that_a_time_limit_cut_short_is_not_cached() -> None:
    assert make_comparison(complete=True).is_complete
    assert not make_comparison(complete=False).is_complete


def test_the_weight_of_a_comparison_grows_with_its_lines() -> None:
    short, long = (make_comparison(complete=True, length=length) for length in (500, 5_000))
    assert long.length == short.length + 4_500
