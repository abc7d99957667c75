"""What reviews of a pull request on Gitea say: their own words, and comments on lines.

Gitea lists comments on lines only by their review, and numbers both when somebody begins to write.
"""

import re
from heapq import nlargest

import msgspec

from agentjobs.forges.comments import NewerComments
from agentjobs.forges.gitea.pulls import READS, numbered_pages
from agentjobs.forges.gitea.responses import User
from agentjobs.forges.http.client import PlatformApi
from agentjobs.forges.protocol import Comment, CommentCursor, ForgeError
from agentjobs.forges.text import place_of

_NAME = "Gitea"
# An answer to a comment on a line belongs to the review of that comment, and nothing tells when it
# came: the latest reviews are read again, each with one request.
MOST_READ_AGAIN = 20
# Of reviews: begun, and asked for.
_NOT_SENT = frozenset({"PENDING", "REQUEST_REVIEW"})
# Where a page shows it, in the words of that version.
_ANCHOR = re.compile(r"#[a-z]+-\d{1,18}$")


class ReviewAnswer(msgspec.Struct, frozen=True):
    id: int
    state: str
    body: str = ""
    user: User | None = None
    comments_count: int = 0
    html_url: str = ""

    @property
    def is_sent(self) -> bool:
        return self.state not in _NOT_SENT

    def at(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        anchor = _ANCHOR.search(self.html_url[-40:])
        url = page_url if anchor is None else f"{page_url}{anchor[0]}"
        return Comment(self.id, author, self.body, url, "review")


class LineAnswer(msgspec.Struct, frozen=True):
    """`position` is a line's number, `original_position` that of one that was taken away; 0 where
    it is the other."""

    id: int
    body: str
    path: str = ""
    user: User | None = None
    position: int = 0
    original_position: int = 0

    def at(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        url = f"{page_url}#issuecomment-{self.id}"
        place = place_of(self.path, self.position, self.original_position)
        return Comment(self.id, author, self.body, url, "line", place)


class Reviews:
    """`path` is the pull request's in the API, `page_url` where people see it."""

    def __init__(self, api: PlatformApi, path: str, page_url: str) -> None:
        self._api = api
        self._path = f"{path}/reviews"
        self._page_url = page_url

    async def said(self, heard: CommentCursor) -> list[Comment]:
        """Of lines, then of reviews; one request where none has comments on lines."""
        reviews = NewerComments(_NAME, heard.reviews)
        lines = NewerComments(_NAME, heard.lines)
        for review_id in await self._with_lines(reviews):
            lines.add(one.at(self._page_url) for one in await self._lines_of(review_id))
        return [*lines.oldest_first, *reviews.oldest_first]

    async def _with_lines(self, reviews: NewerComments) -> list[int]:
        found: list[int] = []
        pages = numbered_pages(self._api, list[ReviewAnswer], self._path, needs=READS)
        async for page in pages:
            sent = [one for one in page if one.is_sent]
            reviews.add(one.at(self._page_url) for one in sent if one.body.strip())
            with_lines = (one.id for one in sent if one.comments_count > 0)
            found = nlargest(MOST_READ_AGAIN, [*found, *with_lines])
        return found

    async def _lines_of(self, review_id: int) -> list[LineAnswer]:
        path = f"{self._path}/{review_id}/comments"
        try:
            return await self._api.get_as(list[LineAnswer], path, needs=READS)
        except ForgeError as error:
            # Removed since it was listed.
            if error.fault == "gone":
                return []
            raise
