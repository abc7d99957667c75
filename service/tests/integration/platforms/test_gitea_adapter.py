"""What only Gitea has: scopes, labels by ID, teams, numbered pages, branches with new commits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.gitea.accounts import MAX_TEAMS
from agentjobs.platforms.protocol import CommentCursor
from tests.support.forge_servers import faults
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.platform_adapters import BRANCHES, PlatformHarness, platform_harness

PULLS = "/repos/{owner}/{repo}/pulls"
COMMENTS = "/repos/{owner}/{repo}/issues/{index}/comments"
ONE, TWO = BRANCHES


@pytest.fixture
async def harness(tmp_path: Path, template: Path) -> AsyncIterator[PlatformHarness]:
    async with platform_harness("gitea", tmp_path, template) as harness:
        yield harness


@pytest.fixture
def server(harness: PlatformHarness) -> GiteaServer:
    assert isinstance(harness.server, GiteaServer)
    return harness.server


async def test_the_account_is_returned_with_the_missing_scopes(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.scopes = {"write:repository", "write:issue", "read:user", "read:organization"}
    account = await harness.platform.check()
    assert (account.login, account.is_own) == ("agentjobs-bot", False)
    assert (account.missing, account.missing_extras) == ((), ())
    server.scopes.remove("read:organization")
    account = await harness.platform.check()
    assert account.missing == ()
    (extra,) = account.missing_extras
    assert extra.startswith("read:organization (")
    server.scopes = {"read:repository", "read:user"}
    assert (await harness.platform.check()).missing == ("write:repository", "write:issue")
    server.scopes = {"write:repository", "write:user"}
    assert (await harness.platform.check()).missing == ("write:issue",)
    # Tokens had no scopes before 1.20.
    server.scopes = None
    assert (await harness.platform.check()).missing == ()
    server.scopes = {"write:repository", "write:issue"}
    error = await harness.error_of(harness.platform.check())
    assert error.fault == "denied"
    assert "read:user" in str(error)
    assert harness.row.labels == []
    assert harness.row.pulls == {}


async def test_a_missing_scope_is_named_and_the_pull_request_is_still_opened(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.scopes = {"write:repository", "read:user"}
    opened = await harness.open(labels=("bug",))
    assert list(harness.row.pulls) == [opened.number]
    (note,) = opened.notes
    assert "bug" in note
    assert "required=[read:issue]" in note
    error = await harness.error_of(harness.platform.comment(harness.repo, opened.number, "Hello"))
    assert error.fault == "denied"
    assert "write:issue" in str(error)
    server.scopes = {"read:repository", "write:issue", "read:user"}
    error = await harness.error_of(harness.open(TWO))
    assert error.fault == "denied"
    assert "write:repository" in str(error)


async def test_pages_are_numbered_because_links_may_lead_elsewhere(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    """Gitea behind a proxy often does not know its public URL."""
    for number in range(60):
        server.state.add_repository(f"acme/r-{number}", own_role="read")
    assert server.own_address != server.url
    repositories = [repository async for repository in harness.platform.repositories()]
    assert len(repositories) == 61
    assert [repository.full_name for repository in repositories if repository.may_push] == [
        "acme/shop"
    ]
    assert len(server.calls_of("GET /user/repos")) == 2
    opened = await harness.open()
    assert opened.url == f"{server.url}/acme/shop/pulls/{opened.number}"


async def test_labels_of_the_repository_and_its_organization_are_used_and_others_created(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.scopes = {"write:repository", "write:issue", "read:user", "read:organization"}
    server.label_sets["acme"] = ["security"]
    harness.row.labels += [f"label {number}" for number in range(60)]
    wanted = ("label 55", "Security", "brand new")
    opened = await harness.open(labels=wanted)
    assert opened.notes == ()
    assert set(harness.row.pulls[opened.number].labels) == {"label 55", "security", "brand new"}
    assert harness.row.labels[60:] == ["brand new"]
    again = await harness.open(labels=wanted)
    assert again.number == opened.number
    assert len(server.calls_of("POST /repos/{owner}/{repo}/issues/{index}/labels")) == 1


async def test_teams_of_the_owner_are_requested_and_others_are_noted(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.state.teams.add("acme/core")
    server.state.add_user("wanda")
    server.state.add_user("mallory")
    harness.row.roles["wanda"] = "write"
    reviewers = ("@acme/core", "@else/core", "@acme/none", "WANDA", "wanda", "mallory")
    opened = await harness.open(reviewers=("@wanda", *reviewers))
    row = harness.row.pulls[opened.number]
    assert (row.reviewers, row.team_reviewers) == (["wanda"], ["core"])
    assert [note.partition(" could not")[0] for note in opened.notes] == [
        "The team @else/core",
        "@acme/none",
        "@mallory",
    ]
    assert not any("permission" in note for note in opened.notes)
    assert (await harness.open(reviewers=("wanda", "@acme/core"))).notes == ()
    server.state.teams.clear()
    (note,) = (await harness.open(TWO, reviewers=("@acme/core",))).notes
    assert "no such team" in note


async def test_the_pull_request_is_found_after_its_base_changed(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    opened = await harness.open()
    row = harness.row.pulls[opened.number]
    row.base = "release/1.0"
    assert (await harness.open()).number == opened.number
    row.state = "closed"
    existing = await harness.adapter.pull_of_branch(harness.repo, ONE)
    assert existing is not None
    assert (existing.number, existing.state) == (opened.number, "closed")
    # A person opened another, which Gitea does not return first.
    later = server.state.add_pull(harness.row, "By hand", ONE, base="release/1.0")
    assert (await harness.open()).number == later.number
    later.state, later.is_merged, later.head_commit = "closed", True, harness.commits[ONE]
    assert (await harness.open()).number == later.number
    assert len(server.calls_of(f"POST {PULLS}")) == 1


async def test_of_several_opened_concurrently_one_stays(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    """Like a real Gitea, which checks for a pull request and opens one in two steps."""
    server.is_racing = True
    opened = await asyncio.gather(*(harness.open() for _ in range(6)))
    assert len({pull.number for pull in opened}) == 1
    rows = harness.row.pulls.values()
    assert len(rows) > 1
    (left,) = [row for row in rows if row.state == "open"]
    assert left.number == opened[0].number
    left.state, left.is_merged, left.head_commit = "closed", True, harness.commits[ONE]
    assert (await harness.open()).number == left.number


async def test_a_merged_pull_request_has_the_head_that_was_merged(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    opened = await harness.open()
    row = harness.row.pulls[opened.number]
    row.state, row.is_merged, row.head_commit = "closed", True, harness.commits[ONE]
    # The branch has new commits, and Gitea returns its head as that of the pull request.
    server.git.set_branch(harness.row, ONE, harness.commits[TWO])
    assert (
        await harness.platform.pull(harness.repo, opened.number)
    ).head_commit == harness.commits[ONE]
    error = await harness.error_of(
        harness.open(is_follow_up=True, head_commit=harness.commits[TWO])
    )
    assert "was merged before" in str(error)
    assert (await harness.open(head_commit=harness.commits[TWO])).number > opened.number


async def test_only_the_end_of_a_long_conversation_is_read(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    opened = await harness.open()
    row = harness.row.pulls[opened.number]
    days = [f"2026-01-{day:02}T12:00:00Z" for day in range(1, 31)]
    written = [
        server.state.add_comment(row, "ada", day, written_at=day) for day in days for _ in "ab"
    ]

    async def newer(than: int) -> tuple[list[int], list[str]]:
        server.calls.clear()
        await harness.platform.pull(harness.repo, opened.number)
        comments = await harness.platform.comments(harness.repo, opened.number, CommentCursor(than))
        since = [call.query.get("since", "") for call in server.calls_of(f"GET {COMMENTS}")]
        return [comment.id for comment in comments], since

    ids = [comment.id for comment in written]
    assert await newer(0) == (ids, [""])
    assert await newer(ids[55]) == (ids[56:], ["2026-01-28T11:00:00Z"])
    # A deleted comment has no known time.
    del row.comments[55]
    assert await newer(ids[55]) == (ids[56:], [""])
    # A short conversation is read in one request.
    del row.comments[:30]
    assert await newer(ids[54]) == (ids[56:], [""])


async def test_a_repository_that_was_renamed_is_written_to_by_its_new_name(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.state.rename(harness.row, "acme/store")
    taken = server.state.add_repository("acme/shop")
    opened = await harness.open()
    await harness.platform.comment(harness.repo, opened.number, "Hello")
    assert opened.url.endswith(f"/acme/store/pulls/{opened.number}")
    assert taken.pulls == {}
    async with harness.adapter.open_remote(harness.repo, "") as remote:
        assert remote.url == f"{server.url}/acme/store.git"


async def test_an_account_that_cannot_read_permissions_gets_an_error(
    harness: PlatformHarness,
) -> None:
    harness.row.own_role = "write"
    error = await harness.error_of(harness.platform.may_write(harness.repo, "wanda"))
    assert error.fault == "denied"
    assert "admin of the repository" in str(error)


ORGANIZATION_SCOPES = {"write:repository", "write:issue", "read:user", "read:organization"}


async def test_members_of_teams_that_write_code_may_write(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    """Since 1.24 their own permission is `read` or `none`: the rights are in the team's units."""
    server.scopes = ORGANIZATION_SCOPES
    server.add_team("acme/Owners", server.state.account, permission="owner")
    server.add_team("acme/developers", "tina", units={"repo.code": "write", "repo.issues": "read"})
    server.add_team("acme/maintainers", "mia", units={"repo.code": "admin"})
    server.add_team("acme/triage", "theo", units={"repo.code": "read", "repo.issues": "write"})
    server.add_team("acme/admins", "adam", permission="admin")
    server.state.add_user("mallory")
    logins = ("tina", "mia", "theo", "adam", "mallory")
    for is_private in (True, False):
        harness.row.is_private = is_private
        may = [login for login in logins if await harness.platform.may_write(harness.repo, login)]
        assert may == ["tina", "mia", "adam"]


async def test_a_repository_of_a_person_has_no_teams_to_ask(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.state.add_user("mallory")
    assert not await harness.platform.may_write(harness.repo, "mallory")
    assert len(server.calls_of("GET /repos/{owner}/{repo}/teams")) == 1


async def test_versions_without_a_list_of_teams_go_by_the_permission_alone(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.next(faults.missing(on="GET /repos/{owner}/{repo}/teams"))
    server.state.add_user("mallory")
    assert not await harness.platform.may_write(harness.repo, "mallory")


@pytest.mark.parametrize("obstacle", ["scope", "not in the team", "not in the organization"])
async def test_an_account_that_cannot_read_who_is_in_a_team_gets_an_error(
    harness: PlatformHarness, server: GiteaServer, obstacle: str
) -> None:
    server.scopes = ORGANIZATION_SCOPES - ({"read:organization"} if obstacle == "scope" else set())
    server.add_team("acme/developers", "tina", units={"repo.code": "write"})
    if obstacle == "not in the team":
        server.add_team("acme/bots", server.state.account, units={"repo.code": "read"})
    error = await harness.error_of(harness.platform.may_write(harness.repo, "tina"))
    assert error.fault == "denied"
    assert "read:organization" in str(error)
    assert "owner of the organization" in str(error)


async def test_only_a_limited_number_of_teams_is_asked(
    harness: PlatformHarness, server: GiteaServer
) -> None:
    server.scopes = ORGANIZATION_SCOPES
    server.add_team("acme/Owners", server.state.account, permission="owner")
    for number in range(40):
        server.add_team(f"acme/team-{number}", units={"repo.code": "write"})
    server.state.add_user("mallory")
    error = await harness.error_of(harness.platform.may_write(harness.repo, "mallory"))
    assert error.fault == "denied"
    assert len(server.calls_of("GET /teams/{id}/members/{username}")) == MAX_TEAMS


async def test_only_the_request_decides_whether_it_is_a_draft(harness: PlatformHarness) -> None:
    opened = await harness.open(title="[WIP] wip: A change")
    assert not opened.draft
    assert harness.row.pulls[opened.number].title == "A change"
    draft = await harness.open(TWO, title="WIP: " + "x" * 300, draft=True)
    assert draft.draft
    assert harness.row.pulls[draft.number].title == "WIP: " + "x" * 250
