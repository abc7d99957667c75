"""Reviews on GitHub and Gitea: what is sent late, what is long, and how often it is asked for."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.forges.gitea.reviews import MAX_REVIEWS_WITH_LINES
from agentjobs.forges.protocol import Comment, CommentCursor
from tests.support.forge_adapters import PlatformBench, make_template, platform_bench
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.state import PullRow, ReviewRow

DAYS = [f"2026-01-{day:02}T12:00:00Z" for day in range(1, 31)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def github(tmp_path: Path, template: Path) -> AsyncIterator[PlatformBench]:
    async with platform_bench("github", tmp_path, template) as made:
        yield made


@pytest.fixture
async def gitea(tmp_path: Path, template: Path) -> AsyncIterator[PlatformBench]:
    async with platform_bench("gitea", tmp_path, template) as made:
        yield made


async def opened(bench: PlatformBench) -> PullRow:
    return bench.row.pulls[(await bench.open()).number]


async def said(bench: PlatformBench, row: PullRow, heard: CommentCursor) -> list[Comment]:
    bench.server.calls.clear()
    return await bench.platform.comments(bench.repo, row.number, heard)


def reviewed(bench: PlatformBench, row: PullRow, text: str, day: str = DAYS[0]) -> ReviewRow:
    """With one comment on a line, of the same words."""
    review = bench.server.state.add_review(row, "ada", text, written_at=day)
    bench.server.state.add_line(review, text, "a.py", line=1)
    return review


def highest(found: list[Comment], kind: str) -> int:
    return max(one.id for one in found if one.kind == kind)


def asked(bench: PlatformBench) -> Counter[str]:
    return Counter(call.name.rpartition("/")[2] for call in bench.server.calls)


async def test_on_github_a_review_that_was_started_first_and_submitted_last_is_read(
    github: PlatformBench,
) -> None:
    row = await opened(github)
    late = reviewed(github, row, "begun first", DAYS[5])
    late.is_pending = True
    reviewed(github, row, "sent first", DAYS[6])
    found = await said(github, row, CommentCursor())
    assert [(one.kind, one.text) for one in found] == [
        ("line", "sent first"),
        ("review", "sent first"),
    ]
    heard = CommentCursor(0, highest(found, "line"), highest(found, "review"))
    late.is_pending, late.written_at = False, DAYS[7]
    found = await said(github, row, heard)
    assert [(one.kind, one.text) for one in found] == [
        ("line", "begun first"),
        ("review", "begun first"),
    ]
    heard = CommentCursor(0, highest(found, "line"), highest(found, "review"))
    assert await said(github, row, heard) == []


async def test_on_github_only_the_end_of_many_reviews_is_read(github: PlatformBench) -> None:
    row = await opened(github)
    assert await said(github, row, CommentCursor()) == []
    assert asked(github) == {"comments": 1, "reviews": 1}
    for at in range(150):
        reviewed(github, row, f"Nr. {at}", DAYS[at // 10])
    found = await said(github, row, CommentCursor())
    assert [one.text for one in found] == [f"Nr. {at}" for at in range(150)] * 2
    lines = [one.id for one in found if one.kind == "line"]
    reviews = [one.id for one in found if one.kind == "review"]
    assert [
        one.text for one in await said(github, row, CommentCursor(0, lines[147], reviews[148]))
    ] == [
        "Nr. 148",
        "Nr. 149",
        "Nr. 149",
    ]
    # The conversation, the first and two last pages of reviews, three pages of lines.
    assert asked(github) == {"comments": 1 + 3, "reviews": 1 + 2}


async def test_on_github_a_review_without_a_summary_is_no_comment(github: PlatformBench) -> None:
    row = await opened(github)
    github.server.state.add_review(row, "ada", " \n")
    review = github.server.state.add_review(row, "ghost")
    github.server.state.add_line(review, "Only here", "a.py", line=2)
    (found,) = await said(github, row, CommentCursor())
    assert (found.kind, found.text, found.place) == ("line", "Only here", "a.py, line 2")


async def test_on_gitea_the_latest_reviews_are_read_again_for_replies(
    gitea: PlatformBench,
) -> None:
    row = await opened(gitea)
    assert await said(gitea, row, CommentCursor()) == []
    assert asked(gitea) == {"comments": 1, "reviews": 1}
    written = [reviewed(gitea, row, f"Nr. {at}") for at in range(60)]
    gitea.server.state.add_review(row, "grace", "No lines")
    found = await said(gitea, row, CommentCursor())
    assert [one.text for one in found if one.kind == "review"] == [
        *(f"Nr. {at}" for at in range(60)),
        "No lines",
    ]
    # Of comments on lines only those of the latest reviews.
    lines = [one.text for one in found if one.kind == "line"]
    assert lines == [f"Nr. {at}" for at in range(60 - MAX_REVIEWS_WITH_LINES, 60)]
    assert asked(gitea) == {"comments": 1 + MAX_REVIEWS_WITH_LINES, "reviews": 2}
    heard = CommentCursor(0, highest(found, "line"), highest(found, "review"))
    gitea.server.state.add_line(written[45], "An answer", "a.py", line=1, author="grace")
    (answer,) = await said(gitea, row, heard)
    assert (answer.kind, answer.author, answer.text) == ("line", "grace", "An answer")


async def test_on_gitea_a_review_that_is_removed_meanwhile_does_not_matter(
    gitea: PlatformBench,
) -> None:
    row = await opened(gitea)
    reviewed(gitea, row, "first")
    reviewed(gitea, row, "second")
    lines = "GET /repos/{owner}/{repo}/pulls/{index}/reviews/{id}/comments"
    gitea.server.next(Fault(status=404, message="review does not exist", on=lines))
    found = await said(gitea, row, CommentCursor())
    assert [(one.kind, one.text) for one in found] == [
        ("line", "first"),
        ("review", "first"),
        ("review", "second"),
    ]
