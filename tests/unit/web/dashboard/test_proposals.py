"""What pages of pull requests remember, and for how long."""

from markupsafe import Markup

from agentjobs.local_git.history import Commit
from agentjobs.web.dashboard.pulls.comparison_cache import Proposals, Proposed
from agentjobs.web.dashboard.text.diff_view import DiffView, Ends, FileView, LineView


def a_proposal(head: str, *, length: int = 500, complete: bool = True) -> Proposed:
    line = LineView("added", Markup("x" * length), None, 1)
    file = FileView(1, "a.py", None, "modified", 1, 0, True, complete, False, False, (line,))
    commit = Commit("c" * 40, "Ada", "ada@example.com", 0, "Fix it", "")
    view = DiffView((file,), 1, 1, 0, complete=True, counted=True)
    return Proposed(Ends("repo_1", "base", head), [commit], 1, view)


def test_a_proposal_is_found_by_its_repository_and_both_commits() -> None:
    proposals, proposal = Proposals(), a_proposal("head")
    proposals.keep(proposal)
    assert proposals.find(Ends("repo_1", "base", "head")) is proposal
    for other in (("repo_2", "base", "head"), ("repo_1", "b", "head"), ("repo_1", "base", "h")):
        assert proposals.find(Ends(*other)) is None


def test_what_was_looked_at_longest_ago_is_forgotten_first() -> None:
    proposals = Proposals(max_length=3_500)
    for head in "abcd":
        proposals.keep(a_proposal(head))
    assert proposals.find(Ends("repo_1", "base", "a")) is not None
    proposals.keep(a_proposal("e"))
    found = [head for head in "abcde" if proposals.find(Ends("repo_1", "base", head))]
    assert found == ["a", "c", "d", "e"]


def test_one_that_is_very_large_or_was_cut_short_is_not_remembered() -> None:
    proposals = Proposals(max_length=4_000)
    proposals.keep(a_proposal("large", length=1_000))
    proposals.keep(a_proposal("cut", complete=False))
    assert proposals.find(Ends("repo_1", "base", "large")) is None
    assert proposals.find(Ends("repo_1", "base", "cut")) is None
