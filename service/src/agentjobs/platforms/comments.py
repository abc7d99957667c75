"""Collects comments newer than a cursor: bounded, each once, the oldest first. Pure."""

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from operator import attrgetter

import msgspec

from agentjobs.platforms.protocol import Comment
from agentjobs.platforms.text import truncate
from agentjobs.platforms.validate import MAX_COMMENT_BYTES, validate

# The next sync reads those after them.
MAX_COMMENTS = 1_000
_comment_id = attrgetter("id")


class NewerComments:
    """Comments of one kind with IDs above `after`, in any order; None keeps only the newest."""

    def __init__(self, platform: str, after: int | None) -> None:
        self._platform = platform
        self._after = after
        self._by_id: dict[int, Comment] = {}

    def add(self, comments: Iterable[Comment]) -> None:
        """Raises PlatformError for an invalid comment."""
        chosen = {comment.id: self._validate(comment) for comment in self._choose(comments)}
        merged = (self._by_id | chosen).values()
        self._by_id = {comment.id: comment for comment in self._choose(merged)}

    def is_known(self, comment_id: int) -> bool:
        """Whether it is at or below the cursor, or there is no cursor yet."""
        return self._after is None or comment_id <= self._after

    @property
    def oldest_first(self) -> list[Comment]:
        return list(self._by_id.values())

    def _choose(self, comments: Iterable[Comment]) -> list[Comment]:
        if self._after is None:
            return nlargest(1, comments, key=_comment_id)
        newer = (comment for comment in comments if not self.is_known(comment.id))
        return nsmallest(MAX_COMMENTS, newer, key=_comment_id)

    def _validate(self, comment: Comment) -> Comment:
        text = truncate(comment.text, MAX_COMMENT_BYTES)
        return validate(self._platform, msgspec.structs.replace(comment, text=text))
