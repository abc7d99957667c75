"""Reviews of a pull request on Gitea: their summaries and comments on lines.

Gitea lists line comments only per review, and assigns IDs when a person starts to write.
"""

import re
from heapq import nlargest

import msgspec

from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.gitea.pulls import PAGE, READ_REPOSITORY
from agentjobs.platforms.gitea.responses import User
from agentjobs.platforms.http.client import PlatformApi
from agentjobs.platforms.protocol import Comment, CommentCursor
from agentjobs.platforms.text import line_location

_NAME = "Gitea"
# A reply to a line comment belongs to the review of that comment and has no time of its own, so the
# latest reviews are read again, each with one request.
MAX_REVIEWS_WITH_LINES = 20
# Reviews that were started, and requests for a review.
_NOT_SUBMITTED = frozenset({"PENDING", "REQUEST_REVIEW"})
# The fragment of its URL, which differs between versions.
_ANCHOR = re.compile(r"#[a-z]+-\d{1,18}$")


class ReviewResponse(msgspec.Struct, frozen=True):
    id: int
    state: str
    body: str = ""
    user: User | None = None
    comments_count: int = 0
    html_url: str = ""

    @property
    def is_submitted(self) -> bool:
        return self.state not in _NOT_SUBMITTED

    def comment(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        anchor = _ANCHOR.search(self.html_url[-40:])
        url = page_url if anchor is None else f"{page_url}{anchor[0]}"
        return Comment(self.id, author, self.body, url, "review")


class LineCommentResponse(msgspec.Struct, frozen=True):
    """`position` is a line's number, `original_position` that of a deleted line; the other is 0."""

    id: int
    body: str
    path: str = ""
    user: User | None = None
    position: int = 0
    original_position: int = 0

    def comment(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        url = f"{page_url}#issuecomment-{self.id}"
        location = line_location(self.path, self.position, self.original_position)
        return Comment(self.id, author, self.body, url, "line", location)


class Reviews:
    """`path` is the pull request's API path, `page_url` its web page."""

    def __init__(self, api: PlatformApi, path: str, page_url: str) -> None:
        self._api = api
        self._path = f"{path}/reviews"
        self._page_url = page_url

    async def newer_comments(self, cursor: CommentCursor) -> list[Comment]:
        """Line comments, then review summaries; one request if no review has line comments."""
        reviews = NewerComments(_NAME, cursor.reviews)
        lines = NewerComments(_NAME, cursor.lines)
        for review_id in await self._with_lines(reviews):
            lines.add(line.comment(self._page_url) for line in await self._load_lines(review_id))
        return [*lines.oldest_first, *reviews.oldest_first]

    async def _with_lines(self, reviews: NewerComments) -> list[int]:
        review_ids: list[int] = []
        async for page in self._api.pages(
            list[ReviewResponse], self._path, needs=READ_REPOSITORY, limit=PAGE
        ):
            submitted = [review for review in page if review.is_submitted]
            reviews.add(
                review.comment(self._page_url) for review in submitted if review.body.strip()
            )
            with_lines = (review.id for review in submitted if review.comments_count > 0)
            review_ids = nlargest(MAX_REVIEWS_WITH_LINES, [*review_ids, *with_lines])
        return review_ids

    async def _load_lines(self, review_id: int) -> list[LineCommentResponse]:
        path = f"{self._path}/{review_id}/comments"
        # None if it was deleted since it was listed.
        lines = await self._api.get_or_none(list[LineCommentResponse], path, needs=READ_REPOSITORY)
        return lines or []
