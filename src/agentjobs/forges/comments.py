"""Of a conversation, what was not heard yet: bounded, each once, the oldest first. Pure."""

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from operator import attrgetter

import msgspec

from agentjobs.forges.protocol import Comment
from agentjobs.forges.text import cut
from agentjobs.forges.validate import MOST_COMMENT_BYTES, plausible

# The next look hears those after them.
MOST_AT_ONCE = 1_000
_number = attrgetter("id")


class NewerComments:
    """Of one kind, those with a higher number than `after`, told in any order; None: the newest."""

    def __init__(self, platform: str, after: int | None) -> None:
        self._platform = platform
        self._after = after
        self._found: dict[int, Comment] = {}

    def add(self, told: Iterable[Comment]) -> None:
        """Raises ForgeError for what no comment can be."""
        found = self._found | {one.id: self._bounded(one) for one in self._chosen(told)}
        self._found = {one.id: one for one in self._chosen(found.values())}

    def knows(self, number: int) -> bool:
        """Whether it was heard before, or is of a time in which nobody listened."""
        return self._after is None or number <= self._after

    @property
    def oldest_first(self) -> list[Comment]:
        return list(self._found.values())

    def _chosen(self, told: Iterable[Comment]) -> list[Comment]:
        if self._after is None:
            return nlargest(1, told, key=_number)
        newer = (one for one in told if not self.knows(one.id))
        return nsmallest(MOST_AT_ONCE, newer, key=_number)

    def _bounded(self, comment: Comment) -> Comment:
        text = cut(comment.text, MOST_COMMENT_BYTES)
        return plausible(self._platform, msgspec.structs.replace(comment, text=text))
