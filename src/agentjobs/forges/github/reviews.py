"""What reviews of a pull request on GitHub say: their own words, and comments on lines.

Each comment on a line belongs to a review, were it one of that comment alone.
"""

from collections.abc import AsyncIterator, Mapping

from agentjobs.forges.comments import NewerComments
from agentjobs.forges.github.responses import LineComment, Review
from agentjobs.forges.http.client import PlatformApi
from agentjobs.forges.http.pagination import Bounds
from agentjobs.forges.protocol import Comment, CommentCursor

# Each as long as GitHub takes one, they are still an answer of the size that is read; beside a
# comment on a line stands the part of the change that it is about.
_REVIEWS_ON_A_PAGE = 30
_LINES_ON_A_PAGE = 20
_MOST_PAGES = Bounds(pages=100)
# Nowhere it is promised that the last that was sent is listed last: it may have been begun before.
_KNOWN_BEFORE_THE_END = 40


class PullReviews:
    """`path` is the pull request's in the API; `needs` the permission to read it."""

    def __init__(self, api: PlatformApi, path: str, needs: str) -> None:
        self._api = api
        self._path = path
        self._needs = needs

    async def said(self, heard: CommentCursor) -> list[Comment]:
        """Of lines, then of reviews; one request where there are no reviews, two where few are."""
        reviews = NewerComments("GitHub", heard.reviews)
        lines = NewerComments("GitHub", heard.lines)
        sent = await self._sent(reviews, lines)
        if sent:
            await self._read_lines(lines, sent)
        return [*lines.oldest_first, *reviews.oldest_first]

    async def _sent(self, reviews: NewerComments, lines: NewerComments) -> dict[int, Review]:
        """By their own identifiers; the latest, at least all that may say something new."""
        sent: dict[int, Review] = {}
        known = 0
        async for page in self._latest_reviews():
            told = [one for one in page if one.is_sent]
            sent |= {one.id: one for one in told}
            reviews.add(one.comment for one in told if one.text)
            known += sum(reviews.knows(one.number) and lines.knows(one.number) for one in told)
            if known >= _KNOWN_BEFORE_THE_END:
                break
        return sent

    async def _read_lines(self, lines: NewerComments, sent: Mapping[int, Review]) -> None:
        known = 0
        async for page in self._latest_lines():
            belonging = ((one, sent.get(one.pull_request_review_id or 0)) for one in page)
            told = [one.of(review) for one, review in belonging if review is not None]
            lines.add(told)
            # Of a review that was not read again, all was heard.
            known += len(page) - sum(not lines.knows(one.id) for one in told)
            if known >= _KNOWN_BEFORE_THE_END:
                break

    def _latest_reviews(self) -> AsyncIterator[list[Review]]:
        """They have no order but that in which they were made."""
        return self._api.pages_from_the_end(
            list[Review],
            f"{self._path}/reviews",
            needs=self._needs,
            bounds=_MOST_PAGES,
            per_page=_REVIEWS_ON_A_PAGE,
        )

    def _latest_lines(self) -> AsyncIterator[list[LineComment]]:
        return self._api.pages(
            list[LineComment],
            f"{self._path}/comments",
            needs=self._needs,
            bounds=_MOST_PAGES,
            sort="created",
            direction="desc",
            per_page=_LINES_ON_A_PAGE,
        )
