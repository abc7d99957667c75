"""Caches the rendered commits and diff of pull requests by their commits, which never change.

Reloading a page, for example after a comment, reads only the current branch tips.
"""

from collections import OrderedDict
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
    """Keeps the most recently used, up to a total length. Not thread-safe."""

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self._max_length = max_length
        self._length = 0
        self._entries: OrderedDict[CommitRange, tuple[Comparison, int]] = OrderedDict()

    def find(self, ends: CommitRange) -> Comparison | None:
        if ends not in self._entries:
            return None
        self._entries.move_to_end(ends)
        return self._entries[ends][0]

    def add(self, comparison: Comparison) -> None:
        length = comparison.length
        if (
            comparison.ends in self._entries
            or not comparison.is_complete
            or length > self._max_length // 4
        ):
            return
        self._entries[comparison.ends] = (comparison, length)
        self._length += length
        while self._length > self._max_length:
            self._length -= self._entries.popitem(last=False)[1][1]


async def load_comparison(request: PageRequest, pull: Pull) -> Comparison:
    try:
        tips = await find_tips(present_path(request.settings.data_path, pull.repo_id), pull)
        cached = _shared().find(CommitRange(pull.repo_id, tips.base, tips.head))
        return cached or await _compare(request, pull)
    except Problem as problem:
        raise hide_details(problem, f"pull request {pull.path}") from None


async def _compare(request: PageRequest, pull: Pull) -> Comparison:
    proposal = await load_proposal(request.settings.data_path, pull)
    # The branches may have moved since the lookup.
    ends = CommitRange(pull.repo_id, proposal.tips.base, proposal.tips.head)
    view = await render_diff(proposal.diff, ends)
    comparison = Comparison(ends, proposal.commits, proposal.commit_count, view)
    _shared().add(comparison)
    return comparison


@cache
def _shared() -> ComparisonCache:
    """The cache of this process."""
    return ComparisonCache()
