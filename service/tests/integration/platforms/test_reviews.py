"""Reviews on GitHub and Gitea: late submissions, long lists and the number of requests."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.gitea.reviews import MAX_REVIEWS_WITH_LINES
from agentjobs.platforms.protocol import Comment, CommentCursor
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.state import PullRow, ReviewRow
from tests.support.platform_adapters import PlatformHarness, platform_harness

DAYS = [f"2026-01-{day:02}T12:00:00Z" for day in range(1, 31)]


@pytest.fixture
async def github(tmp_path: Path, template: Path) -> AsyncIterator[PlatformHarness]:
    async with platform_harness("github", tmp_path, template) as harness:
        yield harness


@pytest.fixture
async def gitea(tmp_path: Path, template: Path) -> AsyncIterator[PlatformHarness]:
    async with platform_harness("gitea", tmp_path, template) as harness:
        yield harness


async def open_pull(harness: PlatformHarness) -> PullRow:
    return harness.row.pulls[(await harness.open()).number]


async def read_comments(
    harness: PlatformHarness, row: PullRow, cursor: CommentCursor
) -> list[Comment]:
    harness.server.calls.clear()
    return await harness.platform.comments(harness.repo, row.number, cursor)


def add_review(harness: PlatformHarness, row: PullRow, text: str, day: str = DAYS[0]) -> ReviewRow:
    """With one line comment of the same text."""
    review = harness.server.state.add_review(row, "ada", text, written_at=day)
    harness.server.state.add_line(review, text, "a.py", line=1)
    return review


def highest_id(comments: list[Comment], kind: str) -> int:
    return max(comment.id for comment in comments if comment.kind == kind)


def count_calls(harness: PlatformHarness) -> Counter[str]:
    return Counter(call.name.rpartition("/")[2] for call in harness.server.calls)


async def test_on_github_a_review_that_was_started_first_and_submitted_last_is_read(
    github: PlatformHarness,
) -> None:
    row = await open_pull(github)
    late = add_review(github, row, "begun first", DAYS[5])
    late.is_pending = True
    add_review(github, row, "sent first", DAYS[6])
    comments = await read_comments(github, row, CommentCursor())
    assert [(comment.kind, comment.text) for comment in comments] == [
        ("line", "sent first"),
        ("review", "sent first"),
    ]
    cursor = CommentCursor(0, highest_id(comments, "line"), highest_id(comments, "review"))
    late.is_pending, late.written_at = False, DAYS[7]
    comments = await read_comments(github, row, cursor)
    assert [(comment.kind, comment.text) for comment in comments] == [
        ("line", "begun first"),
        ("review", "begun first"),
    ]
    cursor = CommentCursor(0, highest_id(comments, "line"), highest_id(comments, "review"))
    assert await read_comments(github, row, cursor) == []


async def test_on_github_only_the_end_of_many_reviews_is_read(github: PlatformHarness) -> None:
    row = await open_pull(github)
    assert await read_comments(github, row, CommentCursor()) == []
    assert count_calls(github) == {"comments": 1, "reviews": 1}
    for at in range(150):
        add_review(github, row, f"Nr. {at}", DAYS[at // 10])
    comments = await read_comments(github, row, CommentCursor())
    assert [comment.text for comment in comments] == [f"Nr. {at}" for at in range(150)] * 2
    lines = [comment.id for comment in comments if comment.kind == "line"]
    reviews = [comment.id for comment in comments if comment.kind == "review"]
    assert [
        comment.text
        for comment in await read_comments(github, row, CommentCursor(0, lines[147], reviews[148]))
    ] == [
        "Nr. 148",
        "Nr. 149",
        "Nr. 149",
    ]
    # The conversation, the first and two last pages of reviews, three pages of lines.
    assert count_calls(github) == {"comments": 1 + 3, "reviews": 1 + 2}


async def test_on_github_a_review_without_a_summary_is_no_comment(github: PlatformHarness) -> None:
    row = await open_pull(github)
    github.server.state.add_review(row, "ada", " \n")
    review = github.server.state.add_review(row, "ghost")
    github.server.state.add_line(review, "Only here", "a.py", line=2)
    (comment,) = await read_comments(github, row, CommentCursor())
    assert (comment.kind, comment.text, comment.location) == ("line", "Only here", "a.py, line 2")


async def test_on_gitea_the_latest_reviews_are_read_again_for_replies(
    gitea: PlatformHarness,
) -> None:
    row = await open_pull(gitea)
    assert await read_comments(gitea, row, CommentCursor()) == []
    assert count_calls(gitea) == {"comments": 1, "reviews": 1}
    reviews = [add_review(gitea, row, f"Nr. {at}") for at in range(60)]
    gitea.server.state.add_review(row, "grace", "No lines")
    comments = await read_comments(gitea, row, CommentCursor())
    assert [comment.text for comment in comments if comment.kind == "review"] == [
        *(f"Nr. {at}" for at in range(60)),
        "No lines",
    ]
    # Line comments come only from the latest reviews.
    lines = [comment.text for comment in comments if comment.kind == "line"]
    assert lines == [f"Nr. {at}" for at in range(60 - MAX_REVIEWS_WITH_LINES, 60)]
    assert count_calls(gitea) == {"comments": 1 + MAX_REVIEWS_WITH_LINES, "reviews": 2}
    cursor = CommentCursor(0, highest_id(comments, "line"), highest_id(comments, "review"))
    gitea.server.state.add_line(reviews[45], "A reply", "a.py", line=1, author="grace")
    (answer,) = await read_comments(gitea, row, cursor)
    assert (answer.kind, answer.author, answer.text) == ("line", "grace", "A reply")


async def test_on_gitea_a_review_deleted_while_reading_is_skipped(
    gitea: PlatformHarness,
) -> None:
    row = await open_pull(gitea)
    add_review(gitea, row, "first")
    add_review(gitea, row, "second")
    lines = "GET /repos/{owner}/{repo}/pulls/{index}/reviews/{id}/comments"
    gitea.server.next(Fault(status=404, message="review does not exist", on=lines))
    comments = await read_comments(gitea, row, CommentCursor())
    assert [(comment.kind, comment.text) for comment in comments] == [
        ("line", "first"),
        ("review", "first"),
        ("review", "second"),
    ]
