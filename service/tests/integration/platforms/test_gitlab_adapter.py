"""What only GitLab has: scopes, access through groups, quick actions in texts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.protocol import CommentCursor
from tests.support.forge_servers import faults
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.platform_adapters import (
    BRANCHES,
    CREATES,
    PlatformHarness,
    platform_harness,
)


@pytest.fixture
async def harness(tmp_path: Path, template: Path) -> AsyncIterator[PlatformHarness]:
    async with platform_harness("gitlab", tmp_path, template) as harness:
        yield harness


@pytest.fixture
def server(harness: PlatformHarness) -> GitLabServer:
    assert isinstance(harness.server, GitLabServer)
    return harness.server


async def test_the_account_is_returned_with_the_missing_scope(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    account = await harness.platform.check()
    assert account.rate_limit is not None
    assert (account.rate_limit.limit, account.rate_limit.remaining) == (2_000, 1_987)
    assert (account.login, account.is_own, account.missing) == ("agentjobs-bot", False, ())
    server.scopes = ["read_api"]
    server.state.user(server.account).is_bot = True
    account = await harness.platform.check()
    assert (account.is_own, account.missing) == (True, ("scope api",))
    # Before 15.5 GitLab did not return scopes.
    server.scopes = None
    assert (await harness.platform.check()).missing == ()
    server.scopes = ["write_repository"]
    error = await harness.error_of(harness.platform.check())
    assert error.fault == "denied"
    assert "scope api" in str(error)


async def test_access_through_a_group_the_project_is_shared_with_counts(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    server.shared.add(harness.row.id)
    server.add_repository("acme/reader", own_role="read")
    assert [repository.full_name async for repository in harness.platform.repositories()] == [
        "acme/shop"
    ]
    assert (await harness.platform.repository(harness.repo)).may_push
    harness.row.own_role = "read"
    assert not (await harness.platform.repository(harness.repo)).may_push


async def test_labels_and_reviewers_are_set_and_no_text_is_a_quick_action(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    harness.row.roles = {"ada": "write", "Bob": "read", server.account: "write"}
    for login in ("ada", "Bob", "mallory"):
        server.state.add_user(login)
    pull = await harness.open(
        draft=True,
        body="Fine.\r\n/merge\n/assign @ada",
        labels=("security", "a,b", "security"),
        reviewers=("@ada", "bob", "nobody", "mallory", "@acme/team", server.account),
    )
    row = harness.row.pulls[pull.number]
    assert (row.title, row.is_draft, row.labels) == ("A change", True, ["security"])
    assert row.reviewers == ["ada", "Bob"]
    assert len(pull.notes) == 4
    for name in ("'a,b'", "'nobody'", "'mallory'", "'acme/team'"):
        assert any(name in note for note in pull.notes)
    await harness.platform.comment(harness.repo, pull.number, "/close\nDone.")
    assert row.comments[-1].text == "\\/close\nDone."
    assert server.quick_actions == []


async def test_a_merge_request_is_opened_even_if_gitlab_refuses_extras(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    server.next(faults.Fault(status=422, message="too many", on=CREATES["gitlab"]))
    pull = await harness.open(labels=("security",))
    assert pull.notes == ("GitLab did not accept the label 'security'.",)
    # A version without the feature accepts only the first reviewer.
    server.max_reviewers = 1
    harness.row.roles = {"ada": "write", "bob": "write"}
    for login in harness.row.roles:
        server.state.add_user(login)
    second = await harness.open(BRANCHES[1], reviewers=("ada", "bob"))
    assert second.notes == ("GitLab did not accept 'bob' as a reviewer.",)


async def test_a_follow_up_makes_it_a_draft_again_or_notes_why_not(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    first = await harness.open()
    again = await harness.open(is_follow_up=True, draft=True)
    assert (again.number, again.draft, again.notes) == (first.number, True, ())
    now = await harness.platform.pull(harness.repo, first.number)
    assert (now.title, now.state, now.draft) == ("A change", "open", True)
    harness.row.pulls[first.number].is_draft = False
    server.next(faults.forbidden("403 Forbidden", on="PUT "))
    ready = await harness.open(is_follow_up=True, draft=True)
    assert not ready.draft
    assert "back to a draft" in ready.notes[0]


async def test_a_conversation_is_read_from_its_end(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    pull = await harness.open()
    row = harness.row.pulls[pull.number]
    comments = [server.state.add_comment(row, "ada", f"word {at}") for at in range(250)]
    server.state.add_comment(row, "ada", "changed the title", is_system=True)
    everything = await harness.platform.comments(harness.repo, pull.number, CommentCursor())
    assert [comment.id for comment in everything] == [comment.id for comment in comments]
    # Two comments of the same time are in the other order.
    row.comments[-2:] = row.comments[:-3:-1]
    row.comments[-4:-2] = row.comments[-3:-5:-1]
    server.calls.clear()
    latest = await harness.platform.comments(
        harness.repo, pull.number, CommentCursor(comments[-2].id)
    )
    assert [(comment.author, comment.text) for comment in latest] == [("ada", "word 249")]
    assert latest[0].url == f"{pull.url}#note_{latest[0].id}"
    assert len(server.calls) == 1


async def test_a_comment_whose_response_was_lost_is_not_written_twice(
    harness: PlatformHarness, server: GitLabServer
) -> None:
    issue = server.state.add_issue(harness.row, "It breaks")
    server.next(faults.server_error(502, on="POST ", after=True))
    await harness.platform.comment_on_issue("acme/shop", issue.number, "Fixed.")
    assert [comment.text for comment in issue.comments] == ["Fixed."]
