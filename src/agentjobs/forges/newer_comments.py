"""Of a conversation, what was not heard yet: bounded, each once, the oldest first. Pure."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from operator import attrgetter
from typing import Protocol, TypeVar

import msgspec

from agentjobs.forges.plausible import MOST_COMMENT_BYTES, plausible
from agentjobs.forges.protocol import Comment
from agentjobs.forges.words import cut

# The next look hears those after them.
MOST_AT_ONCE = 1_000


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


Said = TypeVar("Said", bound=_Numbered)


class NewerComments:
    """Those with a higher number than `after`, which the platform may tell in any order."""

    def __init__(self, platform: str, after: int) -> None:
        self._platform = platform
        self._after = after
        self._found: dict[int, Comment] = {}

    def add(self, told: Iterable[Said], comment_of: Callable[[Said], Comment]) -> None:
        """Raises ForgeError for what no comment can be."""
        number = attrgetter("id")
        newer = nsmallest(MOST_AT_ONCE, (one for one in told if one.id > self._after), key=number)
        found = self._found | {one.id: self._bounded(comment_of(one)) for one in newer}
        self._found = {one: found[one] for one in sorted(found)[:MOST_AT_ONCE]}

    @property
    def oldest_first(self) -> list[Comment]:
        return list(self._found.values())

    def _bounded(self, comment: Comment) -> Comment:
        text = cut(comment.text, MOST_COMMENT_BYTES)
        return plausible(self._platform, msgspec.structs.replace(comment, text=text))
