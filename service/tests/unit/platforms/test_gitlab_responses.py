"""Parsing GitLab's responses, and escaping quick actions in texts."""

import pytest

from agentjobs.platforms.adoption import find_adoptable
from agentjobs.platforms.gitlab.pulls import PullExtras, normalize_reviewers
from agentjobs.platforms.gitlab.responses import (
    DRAFT_MARK,
    Access,
    MergeRequest,
    Permissions,
    Project,
    User,
    escape_quick_actions,
    newest_of_branch,
)
from agentjobs.platforms.protocol import PlatformError, PullRequestRequest


def request(**fields: object) -> PullRequestRequest:
    given = {
        "head_branch": "agentjobs/one",
        "base_branch": "main",
        "head_commit": "c0ffee",
        "base_commit": "ba5e",
        "title": "A change",
        "body": "Because.",
        **fields,
    }
    return PullRequestRequest(**given)  # type: ignore[arg-type]


def merge_request(**fields: object) -> MergeRequest:
    given = {
        "iid": 3,
        "title": "A change",
        "state": "opened",
        "web_url": "https://gitlab.test/acme/shop/-/merge_requests/3",
        "sha": "c0ffee",
        **fields,
    }
    return MergeRequest(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("title", "draft", "sent"),
    [
        ("A change", False, "A change"),
        ("A change", True, "Draft: A change"),
        ("Draft: A change", False, "A change"),
        (" [DRAFT] draft: A change", True, "Draft: A change"),
        ("Drafts: A change", False, "Drafts: A change"),
        ("(draft)", False, "agentjobs/one"),
        ("", True, "Draft: agentjobs/one"),
    ],
)
def test_only_the_request_says_whether_it_is_a_draft(title: str, draft: bool, sent: str) -> None:
    assert DRAFT_MARK.build_title(request(title=title, draft=draft)) == sent


def test_a_title_fits_with_its_draft_mark() -> None:
    assert len(DRAFT_MARK.build_title(request(title="x" * 400, draft=True))) == 255
    assert DRAFT_MARK.add("x" * 255) == f"Draft: {'x' * 248}"
    assert DRAFT_MARK.add("Draft: x") == "Draft: x"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("/merge", "\\/merge"),
        ("All is well.\n/approve\n/label ~bug  ", "All is well.\n\\/approve\n\\/label ~bug  "),
        ("well\r\n\r/close\r", "well\n\n\\/close\n"),
        ("well\r/close", "well\n\\/close"),
        ("/usr/bin/env\n /merge\nsee /merge", "/usr/bin/env\n /merge\nsee /merge"),
        ("/\n//\n/merge!", "/\n//\n/merge!"),
    ],
)
def test_no_text_is_a_quick_action_of_gitlab(text: str, sent: str) -> None:
    assert escape_quick_actions(text) == sent


def test_truncation_leaves_no_quick_action() -> None:
    # The cut goes through the word, and what stands before it would be an order by itself.
    were_cut = set()
    for length in range(499_964, 499_980):
        text = escape_quick_actions("x" * (length - 1) + "\n/merge" + "y" * 1_000)
        were_cut.add("\n\\/merge\n" in text)
        assert "\n/merge\n" not in text
        assert len(text) < 1_000_000
    assert were_cut == {True, False}
    assert len(escape_quick_actions("/a\n" * 400_000)) < 1_000_000


def test_a_bot_account_is_the_services_own() -> None:
    assert User(1, "project_12_bot_5f3a").is_own
    assert User(1, "group_7_bot").is_own
    assert User(1, "service_account_group_7_ab").is_own
    assert User(1, "anybody", bot=True).is_own
    assert not User(1, "project_manager_bot").is_own


def test_a_developer_of_the_project_or_the_group_may_push() -> None:
    developer, reporter = Access(30), Access(20)
    assert Permissions(developer, None).may_push
    assert Permissions(reporter, developer).may_push
    assert not Permissions(reporter, None).may_push
    assert not Permissions().may_push
    assert not Access(40, state="blocked").may_write
    assert not Access(40, membership_state="awaiting").may_write


def test_an_empty_project_has_no_default_branch() -> None:
    project = Project(7, "acme/tools/shop", "main", empty_repo=True)
    assert project.to_remote(may_push=True).default_branch == ""
    assert Project(7, "acme/shop").to_remote(may_push=True).default_branch == ""


def test_a_branch_of_a_fork_is_another_branch() -> None:
    of_fork = merge_request(source_project_id=9, target_project_id=7)
    own = merge_request(iid=2, source_project_id=7, target_project_id=7)
    assert newest_of_branch([of_fork]) is None
    assert newest_of_branch([of_fork, own]) == own


def test_the_open_one_goes_before_newer_ones_that_are_over() -> None:
    closed = merge_request(iid=4, state="closed")
    locked = merge_request(iid=3, state="locked")
    merged = merge_request(iid=2, state="merged")
    assert newest_of_branch([closed, locked, merged]) == locked
    assert newest_of_branch([closed, merged]) == closed


def test_an_adopted_merge_request_is_open_or_merged() -> None:
    merged = merge_request(state="merged")
    assert find_adoptable(None, request()) is None
    assert find_adoptable(merged, request()) == merged
    assert find_adoptable(merged, request(head_commit="other")) is None
    assert find_adoptable(merge_request(), request(is_follow_up=True)) is not None
    with pytest.raises(PlatformError, match="closed without merging"):
        find_adoptable(merge_request(state="closed"), request())
    with pytest.raises(PlatformError, match="no longer has a pull request"):
        find_adoptable(None, request(is_follow_up=True))
    with pytest.raises(PlatformError, match="merged before other was part of it"):
        find_adoptable(merged, request(head_commit="other", is_follow_up=True))


def test_titles_are_returned_without_the_draft_mark() -> None:
    now = merge_request(title="Draft: A change", draft=True).remote_pull
    assert (now.title, now.draft, now.state) == ("A change", True, "open")
    assert merge_request(title="Draft:").remote_pull.title == "Draft:"


def test_what_gitlab_dropped_is_noted() -> None:
    extras = PullExtras({5: "ada", 6: "bob"}, ("Security", "old"), ("A note.",))
    created = merge_request(labels=["security"], reviewers=[User(5, "ada")])
    assert extras.notes_on(created) == (
        "A note.",
        "GitLab did not accept the label 'old'.",
        "GitLab did not accept 'bob' as a reviewer.",
    )


def test_a_reviewer_is_asked_once_however_often_it_is_named() -> None:
    assert normalize_reviewers(["@ada", "Ada", " bob ", "", "@", "@acme/team"]) == [
        "Ada",
        "bob",
        "acme/team",
    ]
