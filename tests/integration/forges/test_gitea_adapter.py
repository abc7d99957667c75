"""What only Gitea has: scopes, labels by ID, teams, numbered pages, branches with new commits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.forges.protocol import Account, CommentCursor
from tests.support.forge_adapters import BRANCHES, PlatformBench, make_template, platform_bench
from tests.support.forge_servers.gitea import GiteaServer

PULLS = "/repos/{owner}/{repo}/pulls"
COMMENTS = "/repos/{owner}/{repo}/issues/{index}/comments"
ONE, TWO = BRANCHES


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def bench(tmp_path: Path, template: Path) -> AsyncIterator[PlatformBench]:
    async with platform_bench("gitea", tmp_path, template) as bench:
        yield bench


@pytest.fixture
def server(bench: PlatformBench) -> GiteaServer:
    assert isinstance(bench.server, GiteaServer)
    return bench.server


async def test_the_account_is_returned_with_the_missing_scopes(
    bench: PlatformBench, server: GiteaServer
) -> None:
    assert await bench.platform.check() == Account("agentjobs-bot", is_own=False)
    server.scopes = {"read:repository", "read:user"}
    assert (await bench.platform.check()).missing == ("write:repository", "write:issue")
    server.scopes = {"write:repository", "write:user"}
    assert (await bench.platform.check()).missing == ("write:issue",)
    # Tokens had no scopes before 1.20.
    server.scopes = None
    assert (await bench.platform.check()).missing == ()
    server.scopes = {"write:repository", "write:issue"}
    error = await bench.refused(bench.platform.check())
    assert error.fault == "denied"
    assert "read:user" in str(error)
    assert bench.row.labels == []
    assert bench.row.pulls == {}


async def test_a_missing_scope_is_named_and_the_pull_request_is_still_opened(
    bench: PlatformBench, server: GiteaServer
) -> None:
    server.scopes = {"write:repository", "read:user"}
    opened = await bench.open(labels=("bug",))
    assert list(bench.row.pulls) == [opened.number]
    (note,) = opened.notes
    assert "bug" in note
    assert "required=[read:issue]" in note
    error = await bench.refused(bench.platform.comment(bench.repo, opened.number, "Hello"))
    assert error.fault == "denied"
    assert "write:issue" in str(error)
    server.scopes = {"read:repository", "write:issue", "read:user"}
    error = await bench.refused(bench.open(TWO))
    assert error.fault == "denied"
    assert "write:repository" in str(error)


async def test_pages_are_numbered_because_links_may_lead_elsewhere(
    bench: PlatformBench, server: GiteaServer
) -> None:
    """Gitea behind a proxy often does not know its public URL."""
    for number in range(60):
        server.state.add_repository(f"acme/r-{number}", own_role="read")
    assert server.own_address != server.url
    repositories = [repository async for repository in bench.platform.repositories()]
    assert len(repositories) == 61
    assert [repository.full_name for repository in repositories if repository.may_push] == [
        "acme/shop"
    ]
    assert len(server.calls_of("GET /user/repos")) == 2
    opened = await bench.open()
    assert opened.url == f"{server.url}/acme/shop/pulls/{opened.number}"


async def test_labels_of_the_repository_and_its_organization_are_used_and_others_created(
    bench: PlatformBench, server: GiteaServer
) -> None:
    server.scopes = {"write:repository", "write:issue", "read:user", "read:organization"}
    server.label_sets["acme"] = ["security"]
    bench.row.labels += [f"label {number}" for number in range(60)]
    wanted = ("label 55", "Security", "brand new")
    opened = await bench.open(labels=wanted)
    assert opened.notes == ()
    assert set(bench.row.pulls[opened.number].labels) == {"label 55", "security", "brand new"}
    assert bench.row.labels[60:] == ["brand new"]
    again = await bench.open(labels=wanted)
    assert again.number == opened.number
    assert len(server.calls_of("POST /repos/{owner}/{repo}/issues/{index}/labels")) == 1


async def test_teams_of_the_owner_are_requested_and_others_are_noted(
    bench: PlatformBench, server: GiteaServer
) -> None:
    server.state.teams.add("acme/core")
    server.state.add_user("wanda")
    server.state.add_user("mallory")
    bench.row.roles["wanda"] = "write"
    reviewers = ("@acme/core", "@else/core", "@acme/none", "WANDA", "wanda", "mallory")
    opened = await bench.open(reviewers=("@wanda", *reviewers))
    row = bench.row.pulls[opened.number]
    assert (row.reviewers, row.team_reviewers) == (["wanda"], ["core"])
    assert [note.partition(" could not")[0] for note in opened.notes] == [
        "The team @else/core",
        "@acme/none",
        "@mallory",
    ]
    assert not any("permission" in note for note in opened.notes)
    assert (await bench.open(reviewers=("wanda", "@acme/core"))).notes == ()
    server.state.teams.clear()
    (note,) = (await bench.open(TWO, reviewers=("@acme/core",))).notes
    assert "no such team" in note


async def test_the_pull_request_is_found_after_its_base_changed(
    bench: PlatformBench, server: GiteaServer
) -> None:
    opened = await bench.open()
    row = bench.row.pulls[opened.number]
    row.base = "release/1.0"
    assert (await bench.open()).number == opened.number
    row.state = "closed"
    existing = await bench.forge.pull_of_branch(bench.repo, ONE)
    assert existing is not None
    assert (existing.number, existing.state) == (opened.number, "closed")
    # A person opened another, which Gitea does not return first.
    later = server.state.add_pull(bench.row, "By hand", ONE, base="release/1.0")
    assert (await bench.open()).number == later.number
    later.state, later.is_merged, later.head_commit = "closed", True, bench.commits[ONE]
    assert (await bench.open()).number == later.number
    assert len(server.calls_of(f"POST {PULLS}")) == 1


async def test_of_several_opened_concurrently_one_stays(
    bench: PlatformBench, server: GiteaServer
) -> None:
    """Like a real Gitea, which checks for a pull request and opens one in two steps."""
    server.is_racing = True
    opened = await asyncio.gather(*(bench.open() for _ in range(6)))
    assert len({pull.number for pull in opened}) == 1
    rows = bench.row.pulls.values()
    assert len(rows) > 1
    (left,) = [row for row in rows if row.state == "open"]
    assert left.number == opened[0].number
    left.state, left.is_merged, left.head_commit = "closed", True, bench.commits[ONE]
    assert (await bench.open()).number == left.number


async def test_a_merged_pull_request_has_the_head_that_was_merged(
    bench: PlatformBench, server: GiteaServer
) -> None:
    opened = await bench.open()
    row = bench.row.pulls[opened.number]
    row.state, row.is_merged, row.head_commit = "closed", True, bench.commits[ONE]
    # The branch has new commits, and Gitea returns its head as that of the pull request.
    server.git.set_branch(bench.row, ONE, bench.commits[TWO])
    assert (await bench.platform.pull(bench.repo, opened.number)).head_commit == bench.commits[ONE]
    error = await bench.refused(bench.open(is_follow_up=True, head_commit=bench.commits[TWO]))
    assert "was merged before" in str(error)
    assert (await bench.open(head_commit=bench.commits[TWO])).number > opened.number


async def test_only_the_end_of_a_long_conversation_is_read(
    bench: PlatformBench, server: GiteaServer
) -> None:
    opened = await bench.open()
    row = bench.row.pulls[opened.number]
    days = [f"2026-01-{day:02}T12:00:00Z" for day in range(1, 31)]
    written = [
        server.state.add_comment(row, "ada", day, written_at=day) for day in days for _ in "ab"
    ]

    async def newer(than: int) -> tuple[list[int], list[str]]:
        server.calls.clear()
        await bench.platform.pull(bench.repo, opened.number)
        comments = await bench.platform.comments(bench.repo, opened.number, CommentCursor(than))
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
    bench: PlatformBench, server: GiteaServer
) -> None:
    server.state.rename(bench.row, "acme/store")
    taken = server.state.add_repository("acme/shop")
    opened = await bench.open()
    await bench.platform.comment(bench.repo, opened.number, "Hello")
    assert opened.url.endswith(f"/acme/store/pulls/{opened.number}")
    assert taken.pulls == {}
    async with bench.forge.open_remote(bench.repo, "") as remote:
        assert remote.url == f"{server.url}/acme/store.git"


async def test_an_account_that_cannot_read_permissions_gets_an_error(bench: PlatformBench) -> None:
    bench.row.own_role = "write"
    error = await bench.refused(bench.platform.may_write(bench.repo, "wanda"))
    assert error.fault == "denied"
    assert "admin of the repository" in str(error)


async def test_only_the_request_decides_whether_it_is_a_draft(bench: PlatformBench) -> None:
    opened = await bench.open(title="[WIP] wip: A change")
    assert not opened.draft
    assert bench.row.pulls[opened.number].title == "A change"
    draft = await bench.open(TWO, title="WIP: " + "x" * 300, draft=True)
    assert draft.draft
    assert bench.row.pulls[draft.number].title == "WIP: " + "x" * 250
