"""Reviews of a pull request on GitHub: their summaries and comments on lines.

Each comment on a line belongs to a review, even if it is the only one.
"""

from collections.abc import AsyncIterator, Mapping

from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.github.responses import LineComment, Review
from agentjobs.platforms.http.client import PlatformApi
from agentjobs.platforms.protocol import Comment, CommentCursor

# Comments of the maximum length still fit into the largest response that is read; a comment on a
# line comes with the part of the diff that it is about.
_REVIEWS_ON_A_PAGE = 30
_LINES_ON_A_PAGE = 20
_MAX_PAGES = 100
# The last one submitted may not be listed last: it may have been started earlier.
_KNOWN_BEFORE_STOPPING = 40


class PullReviews:
    """`path` is the pull request's API path; `needs` the permission to read it."""

    def __init__(self, api: PlatformApi, path: str, needs: str) -> None:
        self._api = api
        self._path = path
        self._needs = needs

    async def newer_comments(self, cursor: CommentCursor) -> list[Comment]:
        """Line comments, then review summaries; one request without reviews, two with few."""
        reviews = NewerComments("GitHub", cursor.reviews)
        lines = NewerComments("GitHub", cursor.lines)
        submitted = await self._submitted(reviews, lines)
        if submitted:
            await self._read_lines(lines, submitted)
        return [*lines.oldest_first, *reviews.oldest_first]

    async def _submitted(self, reviews: NewerComments, lines: NewerComments) -> dict[int, Review]:
        """Reviews by GitHub's ID: the latest, including all that may have something new."""
        submitted: dict[int, Review] = {}
        known = 0
        async for page in self._latest_reviews():
            on_page = [review for review in page if review.is_submitted]
            submitted |= {review.id: review for review in on_page}
            reviews.add(review.comment for review in on_page if review.text)
            known += sum(
                reviews.is_known(review.comment_id) and lines.is_known(review.comment_id)
                for review in on_page
            )
            if known >= _KNOWN_BEFORE_STOPPING:
                break
        return submitted

    async def _read_lines(self, lines: NewerComments, submitted: Mapping[int, Review]) -> None:
        known = 0
        async for page in self._latest_lines():
            pairs = ((line, submitted.get(line.pull_request_review_id or 0)) for line in page)
            comments = [line.comment_in(review) for line, review in pairs if review is not None]
            lines.add(comments)
            # Comments of reviews that were not read again are known.
            known += len(page) - sum(not lines.is_known(comment.id) for comment in comments)
            if known >= _KNOWN_BEFORE_STOPPING:
                break

    def _latest_reviews(self) -> AsyncIterator[list[Review]]:
        """GitHub lists reviews in the order of creation only."""
        return self._api.pages_backwards(
            list[Review],
            f"{self._path}/reviews",
            needs=self._needs,
            max_pages=_MAX_PAGES,
            per_page=_REVIEWS_ON_A_PAGE,
        )

    def _latest_lines(self) -> AsyncIterator[list[LineComment]]:
        return self._api.pages(
            list[LineComment],
            f"{self._path}/comments",
            needs=self._needs,
            max_pages=_MAX_PAGES,
            sort="created",
            direction="desc",
            per_page=_LINES_ON_A_PAGE,
        )
