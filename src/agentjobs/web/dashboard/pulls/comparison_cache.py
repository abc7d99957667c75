"""Caches the rendered commits and diff of pull requests by their commits, which never change.

Reloading a page, for example after a comment, reads only the current branch tips.
"""

from collections.abc import Sequence
from functools import cache

import msgspec

from agentjobs.local_git.history import Commit
from agentjobs.local_git.repositories import present_path
from agentjobs.problems import Problem
from agentjobs.pulls.comparison import find_tips, load_proposal
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.diff_pages import hide_details, render_diff
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import CommitRange, DiffView
from agentjobs.weighted_cache import WeightedCache

MAX_LENGTH = 16 * 1024 * 1024
# Memory per line beside its text, in characters.
_LINE_OVERHEAD = 200


class Comparison(msgspec.Struct, frozen=True):
    ends: CommitRange
    commits: Sequence[Commit]
    commit_count: int
    view: DiffView

    @property
    def length(self) -> int:
        """Approximate memory use, in characters."""
        lines = [line for file in self.view.files for line in file.lines]
        texts = sum(len(commit.subject) + len(commit.body) for commit in self.commits)
        return texts + sum(_LINE_OVERHEAD + len(line.html) for line in lines)

    @property
    def is_complete(self) -> bool:
        """A diff cut short by a time limit is not cached."""
        files = self.view.files
        return self.view.complete and self.view.counted and all(file.complete for file in files)


class ComparisonCache:
    """Keeps complete comparisons, up to a total length."""

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self._comparisons: WeightedCache[CommitRange, Comparison] = WeightedCache(
            max_length, max_length // 4
        )

    def find(self, ends: CommitRange) -> Comparison | None:
        return self._comparisons.get(ends)

    def add(self, comparison: Comparison) -> None:
        if comparison.is_complete:
            self._comparisons.put(comparison.ends, comparison, comparison.length)


async def load_comparison(request: PageRequest, pull: Pull) -> Comparison:
    try:
        tips = await find_tips(present_path(request.settings.repositories_path, pull.repo_id), pull)
        cached = _shared_cache().find(CommitRange(pull.repo_id, tips.base, tips.head))
        return cached or await _compare(request, pull)
    except Problem as problem:
        raise hide_details(problem, f"pull request {pull.path}") from None


async def _compare(request: PageRequest, pull: Pull) -> Comparison:
    proposal = await load_proposal(request.settings.repositories_path, pull)
    # The branches may have moved since the lookup.
    ends = CommitRange(pull.repo_id, proposal.tips.base, proposal.tips.head)
    view = await render_diff(proposal.diff, ends)
    comparison = Comparison(ends, proposal.commits, proposal.commit_count, view)
    _shared_cache().add(comparison)
    return comparison


@cache
def _shared_cache() -> ComparisonCache:
    """The cache of this process."""
    return ComparisonCache()
