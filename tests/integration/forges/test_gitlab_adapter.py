"""What only GitLab has: scopes, access through groups, quick actions in texts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.forges.protocol import Account, CommentCursor
from tests.support.forge_adapters import (
    BRANCHES,
    CREATES,
    PlatformBench,
    make_template,
    platform_bench,
)
from tests.support.forge_servers import faults
from tests.support.forge_servers.gitlab import GitLabServer


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def bench(tmp_path: Path, template: Path) -> AsyncIterator[PlatformBench]:
    async with platform_bench("gitlab", tmp_path, template) as bench:
        yield bench


@pytest.fixture
def server(bench: PlatformBench) -> GitLabServer:
    assert isinstance(bench.server, GitLabServer)
    return bench.server


async def test_the_account_is_returned_with_the_missing_scope(
    bench: PlatformBench, server: GitLabServer
) -> None:
    assert await bench.platform.check() == Account("agentjobs-bot", is_own=False)
    server.scopes = ["read_api"]
    server.state.user(server.account).is_bot = True
    account = await bench.platform.check()
    assert account == Account("agentjobs-bot", is_own=True, missing=("scope api",))
    # Before 15.5 GitLab did not return scopes.
    server.scopes = None
    assert (await bench.platform.check()).missing == ()
    server.scopes = ["write_repository"]
    error = await bench.refused(bench.platform.check())
    assert error.fault == "denied"
    assert "scope api" in str(error)


async def test_access_through_a_group_the_project_is_shared_with_counts(
    bench: PlatformBench, server: GitLabServer
) -> None:
    server.shared.add(bench.row.id)
    server.add_repository("acme/reader", own_role="read")
    assert [repository.full_name async for repository in bench.platform.repositories()] == [
        "acme/shop"
    ]
    assert (await bench.platform.repository(bench.repo)).may_push
    bench.row.own_role = "read"
    assert not (await bench.platform.repository(bench.repo)).may_push


async def test_labels_and_reviewers_are_set_and_no_text_is_a_quick_action(
    bench: PlatformBench, server: GitLabServer
) -> None:
    bench.row.roles = {"ada": "write", "Bob": "read", server.account: "write"}
    for login in ("ada", "Bob", "mallory"):
        server.state.add_user(login)
    pull = await bench.open(
        draft=True,
        body="Fine.\r\n/merge\n/assign @ada",
        labels=("security", "a,b", "security"),
        reviewers=("@ada", "bob", "nobody", "mallory", "@acme/team", server.account),
    )
    row = bench.row.pulls[pull.number]
    assert (row.title, row.is_draft, row.labels) == ("A change", True, ["security"])
    assert row.reviewers == ["ada", "Bob"]
    assert len(pull.notes) == 4
    for name in ("'a,b'", "'nobody'", "'mallory'", "'acme/team'"):
        assert any(name in note for note in pull.notes)
    await bench.platform.comment(bench.repo, pull.number, "/close\nDone.")
    assert row.comments[-1].text == "\\/close\nDone."
    assert server.quick_actions == []


async def test_a_merge_request_is_opened_even_if_gitlab_refuses_extras(
    bench: PlatformBench, server: GitLabServer
) -> None:
    server.next(faults.Fault(status=422, message="too many", on=CREATES["gitlab"]))
    pull = await bench.open(labels=("security",))
    assert pull.notes == ("GitLab did not accept the label 'security'.",)
    # A version without the feature accepts only the first reviewer.
    server.max_reviewers = 1
    bench.row.roles = {"ada": "write", "bob": "write"}
    for login in bench.row.roles:
        server.state.add_user(login)
    second = await bench.open(BRANCHES[1], reviewers=("ada", "bob"))
    assert second.notes == ("GitLab did not accept 'bob' as a reviewer.",)


async def test_a_follow_up_makes_it_a_draft_again_or_notes_why_not(
    bench: PlatformBench, server: GitLabServer
) -> None:
    first = await bench.open()
    again = await bench.open(is_follow_up=True, draft=True)
    assert (again.number, again.draft, again.notes) == (first.number, True, ())
    now = await bench.platform.pull(bench.repo, first.number)
    assert (now.title, now.state, now.draft) == ("A change", "open", True)
    bench.row.pulls[first.number].is_draft = False
    server.next(faults.forbidden("403 Forbidden", on="PUT "))
    ready = await bench.open(is_follow_up=True, draft=True)
    assert not ready.draft
    assert "back to a draft" in ready.notes[0]


async def test_a_conversation_is_read_from_its_end(
    bench: PlatformBench, server: GitLabServer
) -> None:
    pull = await bench.open()
    row = bench.row.pulls[pull.number]
    comments = [server.state.add_comment(row, "ada", f"word {at}") for at in range(250)]
    server.state.add_comment(row, "ada", "changed the title", is_system=True)
    everything = await bench.platform.comments(bench.repo, pull.number, CommentCursor())
    assert [comment.id for comment in everything] == [comment.id for comment in comments]
    # Two comments of the same time are in the other order.
    row.comments[-2:] = row.comments[:-3:-1]
    row.comments[-4:-2] = row.comments[-3:-5:-1]
    server.calls.clear()
    latest = await bench.platform.comments(bench.repo, pull.number, CommentCursor(comments[-2].id))
    assert [(comment.author, comment.text) for comment in latest] == [("ada", "word 249")]
    assert latest[0].url == f"{pull.url}#note_{latest[0].id}"
    assert len(server.calls) == 1


async def test_a_comment_whose_response_was_lost_is_not_written_twice(
    bench: PlatformBench, server: GitLabServer
) -> None:
    issue = server.state.add_issue(bench.row, "It breaks")
    server.next(faults.server_error(502, on="POST ", after=True))
    await bench.platform.comment_on_issue("acme/shop", issue.number, "Fixed.")
    assert [comment.text for comment in issue.comments] == ["Fixed."]
