"""What an agent wrote, as platforms take it; and who is asked for a review on GitHub."""

from datetime import UTC, datetime

import pytest

from agentjobs.platforms.adoption import find_adoptable
from agentjobs.platforms.github.pulls import split_reviewers
from agentjobs.platforms.github.responses import Head, Pull, Repository, Role, newest_of_branch
from agentjobs.platforms.protocol import PlatformError, PullRequestRequest
from agentjobs.platforms.text import one_line, pull_title, truncate


def request(title: str = "A change", body: str = "", **fields: object) -> PullRequestRequest:
    given = {
        "head_branch": "agentjobs/x/1",
        "base_branch": "main",
        "head_commit": "a" * 40,
        "base_commit": "b" * 40,
        "title": title,
        "body": body,
        **fields,
    }
    return PullRequestRequest(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("title", ["", " \n\t", "\u200b\u202e", "\x1b\x07"])
def test_a_title_is_never_empty(title: str) -> None:
    assert pull_title(request(title)) == "agentjobs/x/1"


def test_a_title_is_one_line_of_255_characters_with_its_prefix() -> None:
    assert pull_title(request("two\nlines \u202e\ud800")) == "two lines ?"
    long = pull_title(request("ü" * 5_000), "Draft: ")
    assert long.startswith("Draft: ü")
    assert len(long) == 255


def test_a_body_is_cut_inside_no_character_and_says_so() -> None:
    assert truncate("a\x00b\udfff", 100) == "a\ufffdb?"
    cut = truncate("€" * 1_000, 100)
    assert len(cut.encode()) <= 100
    assert cut.startswith("€€€")
    assert cut.endswith("(truncated)")


def test_untrusted_text_becomes_one_line() -> None:
    assert one_line("a\r\n b\x1b[31m\u2028c" + "x" * 500, 10) == "a b[31m cx"


def pull(number: int = 1, state: str = "open", **fields: object) -> Pull:
    head = Head("agentjobs/x/1", "a" * 40)
    given = {"title": "t", "html_url": "https://x", "head": head, **fields}
    return Pull(number=number, state=state, **given)  # type: ignore[arg-type]


def test_of_a_branch_s_pull_requests_the_open_one_counts_then_the_newest() -> None:
    branch = "agentjobs/x/1"
    closed, merged = pull(2, "closed"), pull(3, "closed", merged_at="2026-01-01T00:00:00Z")
    assert newest_of_branch([], branch) is None
    assert newest_of_branch([closed, merged], branch) == merged
    assert newest_of_branch([merged, pull(1)], branch) == pull(1)
    assert newest_of_branch([pull(4, head=Head("other", "c"))], branch) is None


def test_which_pull_requests_are_adopted() -> None:
    merged = pull(3, "closed", merged_at="2026-01-01T00:00:00Z")
    assert find_adoptable(pull(), request()) == pull()
    assert find_adoptable(merged, request()) == merged
    assert find_adoptable(merged, request(head_commit="c" * 40)) is None
    assert find_adoptable(None, request()) is None
    with pytest.raises(PlatformError, match="closed without merging"):
        find_adoptable(pull(2, "closed"), request())
    with pytest.raises(PlatformError, match="no longer has a pull request"):
        find_adoptable(None, request(is_follow_up=True))
    with pytest.raises(PlatformError, match="was merged before cccccccccccc"):
        find_adoptable(merged, request(head_commit="c" * 40, is_follow_up=True))


def test_reviewers_are_people_and_teams_of_the_owner_but_not_the_author() -> None:
    given = ("@Ann", "ann", "bob", "@Acme/core", "@other/core", "x@acme.test", "", "@me")
    reviewers = split_reviewers(given, owner="acme", author="Me")
    assert reviewers.people == ("ann", "bob")
    assert reviewers.teams == ("core",)
    assert [("other/core" in note, "x@acme.test" in note) for note in reviewers.notes] == [
        (True, False),
        (False, True),
    ]


def test_a_repository_of_size_zero_may_be_empty() -> None:
    fields = {"id": 7, "full_name": "acme/x", "default_branch": "main"}
    assert Repository(**fields, size=0).to_remote().default_branch == ""  # type: ignore[arg-type]
    pushed_at = datetime(2026, 1, 1, tzinfo=UTC)
    small = Repository(**fields, size=0, pushed_at=pushed_at)  # type: ignore[arg-type]
    assert small.may_be_empty
    assert small.to_remote().default_branch == "main"


@pytest.mark.parametrize(
    ("permission", "role", "may"),
    [
        ("admin", "admin", True),
        ("write", "maintain", True),
        ("write", "our-own-role", True),
        ("read", "triage", False),
        ("none", "none", False),
    ],
)
def test_who_may_write(permission: str, role: str, may: bool) -> None:
    assert Role(permission, role).may_write is may
