"""Caches the rendered commits and diff of pull requests by their commits, which never change.

Reloading a page, for example after a comment, reads only the current branch tips.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from agentjobs.local_git.history import Commit
from agentjobs.local_git.repositories import present_path
from agentjobs.pulls.comparison import find_tips, load_proposal
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.diff_pages import hide_details
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import CommitRange, DiffView, render_diff_view
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.weighted_cache import WeightedCache

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


_comparisons: WeightedCache[CommitRange, Comparison] = WeightedCache(MAX_LENGTH, MAX_LENGTH // 4)


async def load_comparison(request: PageRequest, pull: Pull) -> Comparison:
    try:
        tips = await find_tips(present_path(request.settings.repositories_path, pull.repo_id), pull)
        cached = _comparisons.get(CommitRange(pull.repo_id, tips.base, tips.head))
        return cached or await _compare(request, pull)
    except Problem as problem:
        raise hide_details(problem, f"pull request {pull.path}") from None


async def _compare(request: PageRequest, pull: Pull) -> Comparison:
    proposal = await load_proposal(request.settings.repositories_path, pull)
    # The branches may have moved since the lookup.
    ends = CommitRange(pull.repo_id, proposal.tips.base, proposal.tips.head)
    view = await asyncio.to_thread(render_diff_view, proposal.diff)
    comparison = Comparison(ends, proposal.commits, proposal.commit_count, view)
    if comparison.is_complete:
        _comparisons.put(ends, comparison, comparison.length)
    return comparison
