"""Collects comments newer than a cursor: bounded, each once, the oldest first. Pure."""

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from agentjobs.platforms.protocol import Comment
from agentjobs.platforms.text import truncate
from agentjobs.platforms.validate import MAX_COMMENT_BYTES, validate

# The next sync reads those after them.
MAX_COMMENTS = 1_000


class NewerComments:
    """Comments of one kind with IDs above `after`, in any order; None keeps only the newest."""

    def __init__(self, platform: str, after: int | None) -> None:
        self._platform = platform
        self._after = after
        self._by_id: dict[int, Comment] = {}

    def add(self, comments: Iterable[Comment]) -> None:
        """Raises PlatformError for an invalid comment."""
        for comment in comments:
            if self._after is None or comment.id > self._after:
                text = truncate(comment.text, MAX_COMMENT_BYTES)
                bounded = msgspec.structs.replace(comment, text=text)
                self._by_id[comment.id] = validate(self._platform, bounded)

    def is_known(self, comment_id: int) -> bool:
        """Whether it is at or below the cursor, or there is no cursor yet."""
        return self._after is None or comment_id <= self._after

    @property
    def oldest_first(self) -> list[Comment]:
        comments = sorted(self._by_id.values(), key=attrgetter("id"))
        return comments[-1:] if self._after is None else comments[:MAX_COMMENTS]
