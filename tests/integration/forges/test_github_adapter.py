"""GitHub, as an App and with a token, against a server that holds every request to GitHub's own
description of its API."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.github.adapter import GitHub
from agentjobs.forges.github.app import TokenCache
from agentjobs.forges.protocol import CommentCursor, ForgeError, PullRequestRequest, RepoAddress
from agentjobs.git.process import git
from agentjobs.git.remote import NETWORK_PROTOCOLS
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.outbound.guard.sessions import new_session
from tests.support.forge_servers.faults import Fault, cut, forbidden, server_error, too_many
from tests.support.forge_servers.github import GitHubServer, secondary_limit
from tests.support.forge_servers.state import RepositoryRow
from tests.support.manual_clock import ManualClock

BRANCH = "agentjobs/lint/1"
NEW_PULL = "POST /repos/{owner}/{repo}/pulls"


@dataclass
class House:
    server: GitHubServer
    session: aiohttp.ClientSession
    row: RepositoryRow
    commit: str
    clock: ManualClock
    tokens: TokenCache

    @property
    def repo(self) -> RepoAddress:
        return RepoAddress("acme", "acme/shop", "repo_1", str(self.row.id))

    def github(self, kind: str = "app", credential: str = "", seconds: float = 600) -> GitHub:
        is_app = kind == "app"
        app = self.server.app
        connection = Connection(
            id="fcn_1",
            organization_id="org_1",
            platform="github",
            kind="app" if is_app else "token",
            name="github",
            url=self.server.url,
            app_id=str(app.id) if is_app else None,
            installation_id=str(app.installation_id) if is_app else None,
        )
        given = credential or (app.private_key if is_app else self.server.token)
        git_transport = GitTransport(AllowList.parse(["127.0.0.1/32"]), self.server.authorities)
        retry_budget = self.clock.retry_budget(seconds, time.time)
        return GitHub(connection, given, self.session, git_transport, retry_budget, self.tokens)

    def request(self, **fields: Any) -> PullRequestRequest:
        given = {
            "head_branch": BRANCH,
            "base_branch": "main",
            "head_commit": self.commit,
            "base_commit": "b" * 40,
            "title": "A change",
            "body": "Because.",
            **fields,
        }
        return PullRequestRequest(**given)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    server = GitHubServer(tmp_path)
    row = server.add_repository("acme/shop", {"README.md": "shop"})
    commit = server.git.commit(row, BRANCH, {"new.txt": "1"})
    clock = ManualClock(time.time())
    ca_file = str(server.authorities)
    async with (
        server.serving(),
        new_session(AllowList.parse(["127.0.0.1/32"]), ca_file) as session,
    ):
        yield House(server, session, row, commit, clock, TokenCache(clock))


async def opened(github: GitHub, house: House, **fields: Any) -> Any:
    return await github.open_pull_request(house.repo, "", house.request(**fields))


async def test_a_check_returns_the_account_and_missing_permissions(house: House) -> None:
    account = await house.github().check()
    assert (account.login, account.is_own, account.missing) == ("agentjobs[bot]", True, ())
    house.server.app.permissions = {"metadata": "read", "contents": "read", "issues": "write"}
    lacks = (await house.github().check()).missing
    assert lacks == ("Contents: read and write", "Pull requests: read and write")
    person = await house.github("token").check()
    assert (person.login, person.is_own, person.missing) == ("agentjobs-bot", False, ())
    house.server.scopes = "public_repo, gist"
    assert (await house.github("token").check()).missing == ("repo",)
    # A fine-grained one cannot be asked.
    house.server.scopes = None
    assert (await house.github("token").check()).missing == ()
    with pytest.raises(ForgeError, match=r"Bad credentials\); replace it") as got:
        await house.github("token", "ghp_revoked").check()
    assert got.value.fault == "unauthorized"


async def test_an_error_about_a_removed_installation_says_what_to_do(house: House) -> None:
    house.server.app.is_suspended = True
    with pytest.raises(ForgeError, match="suspended") as caught:
        await house.github().check()
    assert caught.value.fault == "denied"
    with pytest.raises(ForgeError, match="suspended"):
        await house.github().repository(house.repo)
    house.server.app.is_suspended = False
    github = house.github()
    house.server.app.installation_id = 9
    with pytest.raises(ForgeError, match="no installation 815") as caught:
        await github.repository(house.repo)
    assert caught.value.fault == "gone"
    assert house.clock.slept == []


async def test_all_pages_of_repositories_are_listed_with_a_token_only_for_that(
    house: House,
) -> None:
    for number in range(120):
        house.server.add_repository(f"acme/r{number}", own_role="read")
    house.server.add_repository("acme/old", is_archived=True)
    house.server.add_repository("acme/.github", is_empty=True)
    for kind in ("app", "token"):
        seen = {one.full_name: one async for one in house.github(kind).repositories()}
        assert len(seen) == 123
        assert seen["acme/shop"].external_id == str(house.row.id)
        assert (seen["acme/shop"].default_branch, seen["acme/shop"].may_push) == ("main", True)
        assert seen["acme/old"].is_archived
        assert seen["acme/.github"].full_name == "acme/.github"
        assert seen["acme/r7"].may_push is (kind == "app")
    (given,) = house.server.app.tokens.values()
    assert given.permissions == {"metadata": "read"}


async def test_git_uses_a_token_for_one_repository(house: House, tmp_path: Path) -> None:
    other = house.server.add_repository("acme/other", {"a": "b"})
    async with house.github().open_remote(house.repo, "ajt_job") as remote:
        await git(
            "clone",
            "--quiet",
            remote.url,
            str(tmp_path / "tree"),
            configuration=remote.configuration,
            environment=remote.environment,
            protocols=NETWORK_PROTOCOLS,
        )
        assert (tmp_path / "tree" / "README.md").read_text() == "shop"
    (given,) = house.server.app.tokens.values()
    assert given.repositories == {house.row.id}
    assert given.permissions["contents"] == "write"
    assert not house.server.app.sees(given, other.id)
    assert given.value not in repr(remote)
    assert given.value not in remote.url


async def test_a_pull_request_has_its_labels_and_all_reviewers_there_are(house: House) -> None:
    house.row.roles = {"ann": "write", "bob": "read"}
    house.server.state.teams.add("acme/core")
    reviewers = ("@ann", "nobody", "bob", "@acme/core", "@acme/gone", "agentjobs[bot]")
    pull = await opened(
        house.github(), house, draft=True, labels=("bot", "x" * 60, "bot"), reviewers=reviewers
    )
    made = house.row.pulls[pull.number]
    assert (pull.draft, made.is_draft, made.title, made.base) == (True, True, "A change", "main")
    assert pull.url == f"{house.server.url}/acme/shop/pull/{pull.number}"
    assert made.labels == ["bot"]
    assert (made.reviewers, made.team_reviewers) == (["ann", "bob"], ["core"])
    noted = [any(name in note for note in pull.notes) for name in ("x" * 60, "nobody", "gone")]
    assert noted == [True, True, True]
    assert len(pull.notes) == 3
    again = await opened(house.github(), house, is_follow_up=True, draft=True)
    assert (again.number, again.notes) == (pull.number, ())
    made.is_draft = False
    again = await opened(house.github(), house, is_follow_up=True, draft=True)
    assert (again.number, again.draft) == (pull.number, False)
    assert "back to a draft" in again.notes[0]


async def test_one_is_opened_whichever_response_is_lost(house: House) -> None:
    faults = [
        cut(on=NEW_PULL, after=True),
        server_error(502, on=NEW_PULL, after=True),
        server_error(500, on=NEW_PULL),
        server_error(503, on=NEW_PULL, times=3),
        secondary_limit(on=NEW_PULL),
        too_many(90, on="POST /app/installations"),
        server_error(500, on="POST /app/installations"),
        cut(on="GET /repos/{owner}/{repo}/pulls", times=3),
    ]
    for number, fault in enumerate(faults):
        branch = f"agentjobs/lint/fault{number}"
        house.server.git.set_branch(house.row, branch, house.commit)
        house.tokens = TokenCache(house.clock)
        house.server.next(fault)
        house.clock.said.clear()
        pull = await opened(house.github(), house, head_branch=branch)
        assert [row.number for row in house.row.pull_of_branch(branch)] == [pull.number]
        assert len(house.clock.said) <= 3
        found = await house.github().pull_of_branch(house.repo, branch)
        assert found is not None
        assert (found.number, found.state) == (pull.number, "open")
    assert len(house.row.pulls) == len(faults)


async def test_concurrent_requests_open_one_pull_request_with_one_token(house: House) -> None:
    github = house.github()
    pulls = await asyncio.gather(*(opened(github, house) for _ in range(6)))
    assert len({pull.number for pull in pulls}) == 1
    assert len(house.row.pulls) == 1
    assert len(house.server.app.tokens) == 1


async def test_a_repository_without_drafts_gets_one_that_is_ready_and_a_note(house: House) -> None:
    words = "Draft pull requests are not supported in this repository."
    house.server.next(Fault(status=422, message=words, on=NEW_PULL))
    pull = await opened(house.github(), house, draft=True)
    assert not pull.draft
    assert "does not support drafts" in pull.notes[0]


async def test_permission_faults_are_final_and_name_the_permission(house: House) -> None:
    house.server.next(forbidden("Resource not accessible by integration", on=NEW_PULL))
    with pytest.raises(ForgeError, match="“Pull requests: read and write”") as caught:
        await opened(house.github(), house)
    assert caught.value.fault == "denied"
    house.row.own_role = "read"
    with pytest.raises(ForgeError, match="“Pull requests: read and write”"):
        await opened(house.github("token"), house)
    app = house.server.app
    app.permissions = {"contents": "write", "metadata": "read", "issues": "write"}
    house.tokens = TokenCache(house.clock)
    with pytest.raises(ForgeError, match="not granted the permission “Pull requests") as caught:
        await opened(house.github(), house)
    assert caught.value.fault == "denied"
    # An App without issues opens pull requests all the same.
    app.permissions = {"contents": "write", "metadata": "read", "pull_requests": "write"}
    await opened(house.github(), house, labels=("bot",))
    assert house.clock.slept == []


async def test_a_repository_the_app_is_not_installed_on_is_gone(house: House) -> None:
    house.server.app.reach = set()
    with pytest.raises(ForgeError, match="not installed on acme/shop") as caught:
        await house.github().repository(house.repo)
    assert caught.value.fault == "gone"


async def test_a_rename_is_followed_and_a_new_repository_of_that_name_is_another_one(
    house: House,
) -> None:
    house.server.state.rename(house.row, "acme/store")
    for kind in ("app", "token"):
        seen = await house.github(kind).repository(house.repo)
        assert (seen.full_name, seen.external_id) == ("acme/store", str(house.row.id))
    pull = await opened(house.github(), house, labels=("bot",))
    assert house.row.pulls[pull.number].labels == ["bot"]
    assert (await opened(house.github(), house, labels=("more",))).number == pull.number
    assert house.row.pulls[pull.number].labels == ["bot", "more"]
    await house.github().comment(house.repo, pull.number, "Hello")
    house.server.add_repository("acme/shop", {"a": "b"})
    with pytest.raises(ForgeError, match="no longer the repository") as caught:
        await house.github("token").repository(house.repo)
    assert caught.value.fault == "gone"


async def test_a_repository_of_size_zero_is_checked_for_commits(house: House) -> None:
    empty = house.server.add_repository("acme/new", is_empty=True)
    address = RepoAddress("acme", "acme/new", "", "")
    assert (await house.github().repository(address)).default_branch == ""
    assert (await house.github("token").repository(address)).external_id == str(empty.id)


async def test_tokens_that_ended_early_are_replaced(house: House) -> None:
    pull = await opened(house.github(), house)
    house.server.app.tokens.clear()
    now = await house.github().pull(house.repo, pull.number)
    assert (now.state, now.head_commit, now.url) == ("open", house.commit, pull.url)
    house.server.app.tokens.clear()
    await house.github().comment(house.repo, pull.number, "Still here")
    house.clock.now += 3_400
    await house.github().pull(house.repo, pull.number)
    assert len(house.server.app.tokens) == 2


async def test_pull_requests_are_returned_as_they_are(house: House) -> None:
    github = house.github()
    pull = await opened(github, house)
    row = house.row.pulls[pull.number]
    row.is_merged, row.head_commit = True, house.commit
    assert (await github.pull(house.repo, pull.number)).state == "merged"
    assert (await opened(github, house)).number == pull.number
    with pytest.raises(ForgeError, match="merged before"):
        await opened(github, house, head_commit="c" * 40, is_follow_up=True)
    row.is_merged, row.state = False, "closed"
    with pytest.raises(ForgeError, match="closed without merging"):
        await opened(github, house)
    with pytest.raises(ForgeError) as caught:
        await github.pull(house.repo, 99)
    assert caught.value.fault == "gone"


async def test_comments_and_issues_are_read_and_written_once(house: House) -> None:
    github, state = house.github(), house.server.state
    pull = await opened(github, house)
    row = house.row.pulls[pull.number]
    for number in range(130):
        state.add_comment(row, "ann", f"{number}")
    seen = await github.comments(house.repo, pull.number, CommentCursor())
    assert [one.text for one in seen] == [str(number) for number in range(130)]
    newer = await github.comments(house.repo, pull.number, CommentCursor(seen[127].id))
    assert [(one.author, one.text) for one in newer] == [("ann", "128"), ("ann", "129")]
    house.server.next(cut(on="POST /repos/{owner}/{repo}/issues", after=True))
    await github.comment(house.repo, pull.number, "Done \x00" + "x" * 70_000)
    assert [one.text[:4] for one in row.comments[130:]] == ["Done"]
    issue = state.add_issue(house.row, "Broken", text="It is.", labels=["bug"])
    found = await github.issue("acme/shop", issue.number)
    assert (found.title, found.text, found.labels) == ("Broken", "It is.", ("bug",))
    assert (found.full_name, found.url.endswith(f"/issues/{issue.number}")) == ("acme/shop", True)
    await github.comment_on_issue("acme/shop", issue.number, "See there")
    assert [one.text for one in issue.comments] == ["See there"]
    with pytest.raises(ForgeError) as caught:
        await github.issue("acme/shop", 4_711)
    assert caught.value.fault == "gone"


async def test_write_access_is_read_from_github(house: House) -> None:
    house.row.roles = {"ann": "maintain", "bob": "triage", "eve[bot]": "write"}
    for login in ("ann", "bob", "eve[bot]"):
        house.server.state.user(login)
    asked = [
        await house.github().may_write(house.repo, login)
        for login in ("ann", "bob", "eve[bot]", "nobody")
    ]
    assert asked == [True, False, True, False]
    with pytest.raises(ForgeError):
        await house.github().may_write(house.repo, "..")


async def test_a_conversation_is_read_from_its_end(house: House) -> None:
    github = house.github("token")
    pull = await opened(github, house)
    row = house.row.pulls[pull.number]
    written = [house.server.state.add_comment(row, "ada", f"word {at}") for at in range(130)]
    ids = [one.id for one in written]
    # One of each is for reviews, of which there are none.
    for after, requests in ((0, 7), (ids[-3], 3), (ids[100], 4), (ids[-1], 3)):
        house.server.calls.clear()
        found = await github.comments(house.repo, pull.number, CommentCursor(after))
        assert [one.id for one in found] == [number for number in ids if number > after]
        assert len(house.server.calls) == requests
    # What was written all the same is found at the end too.
    house.server.next(server_error(502, on="POST ", after=True))
    await github.comment(house.repo, pull.number, "Done.")
    assert [one.text for one in row.comments].count("Done.") == 1
