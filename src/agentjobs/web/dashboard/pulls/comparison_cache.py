"""What a pull request proposes, as its page shows it: remembered by commits, which never change.

So who looks again, after a comment say, waits for no more than where the branches are now.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache

import msgspec

from agentjobs.local_git.history import Commit
from agentjobs.local_git.repositories import present_path
from agentjobs.problems import Problem
from agentjobs.pulls.comparison import proposal_of, tips_of
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.diff_pages import unreadable, view
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import DiffView, Ends

MAX_LENGTH = 16 * 1024 * 1024
# What a line costs beside its characters.
_LINE_LENGTH = 200


class Proposed(msgspec.Struct, frozen=True):
    ends: Ends
    commits: Sequence[Commit]
    commit_count: int
    view: DiffView

    @property
    def length(self) -> int:
        """About what it takes to remember it."""
        lines = [line for file in self.view.files for line in file.lines]
        texts = sum(len(commit.subject) + len(commit.body) for commit in self.commits)
        return texts + sum(_LINE_LENGTH + len(line.html) for line in lines)

    @property
    def is_whole(self) -> bool:
        """What was cut short may have been so for lack of time."""
        files = self.view.files
        return self.view.complete and self.view.counted and all(file.complete for file in files)


class Proposals:
    """The latest, up to a length of all together. For the event loop's thread alone."""

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self._max_length = max_length
        self._length = 0
        self._kept: OrderedDict[Ends, tuple[Proposed, int]] = OrderedDict()

    def find(self, ends: Ends) -> Proposed | None:
        if ends not in self._kept:
            return None
        self._kept.move_to_end(ends)
        return self._kept[ends][0]

    def keep(self, proposed: Proposed) -> None:
        length = proposed.length
        if proposed.ends in self._kept or not proposed.is_whole or length > self._max_length // 4:
            return
        self._kept[proposed.ends] = (proposed, length)
        self._length += length
        while self._length > self._max_length:
            self._length -= self._kept.popitem(last=False)[1][1]


async def proposed_by(request: PageRequest, pull: Pull) -> Proposed:
    try:
        tips = await tips_of(present_path(request.settings.data_path, pull.repo_id), pull)
        known = _shared().find(Ends(pull.repo_id, tips.base, tips.head))
        return known or await _read(request, pull)
    except Problem as problem:
        raise unreadable(problem, f"pull request {pull.path}") from None


async def _read(request: PageRequest, pull: Pull) -> Proposed:
    proposal = await proposal_of(request.settings.data_path, pull)
    # Its own tips: the branches may have moved meanwhile.
    ends = Ends(pull.repo_id, proposal.tips.base, proposal.tips.head)
    shown = await view(proposal.diff, ends)
    proposed = Proposed(ends, proposal.commits, proposal.commit_count, shown)
    _shared().keep(proposed)
    return proposed


@cache
def _shared() -> Proposals:
    """Those of this process."""
    return Proposals()
