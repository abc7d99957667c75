"""GitHub, as an App and with a token, against a server that validates every request against
GitHub's own API description."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.github.adapter import GitHub
from agentjobs.platforms.github.app import TokenCache
from agentjobs.platforms.protocol import (
    CommentCursor,
    PlatformError,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.mirrors.publish import push
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.support.forge_servers.faults import Fault, cut, forbidden, server_error, too_many
from tests.support.forge_servers.github import GitHubServer, secondary_limit
from tests.support.forge_servers.state import RepositoryRow
from tests.support.manual_clock import ManualClock

BRANCH = "agentjobs/lint/1"
NEW_PULL = "POST /repos/{owner}/{repo}/pulls"


@dataclass
class GitHubHarness:
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
        secret = credential or (app.private_key if is_app else self.server.token)
        git_transport = GitTransport(AllowList.parse(["127.0.0.1/32"]), self.server.authorities)
        retry_budget = self.clock.retry_budget(seconds)
        return GitHub(
            connection, secret, self.session, git_transport, retry_budget, tokens=self.tokens
        )

    def request(self, **fields: Any) -> PullRequestRequest:
        values = {
            "head_branch": BRANCH,
            "base_branch": "main",
            "head_commit": self.commit,
            "base_commit": "b" * 40,
            "title": "A change",
            "body": "Because.",
            **fields,
        }
        return PullRequestRequest(**values)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GitHubHarness]:
    server = GitHubServer(tmp_path)
    row = server.add_repository("acme/shop", {"README.md": "shop"})
    commit = server.git.commit(row, BRANCH, {"new.txt": "1"})
    server.clock = clock = ManualClock(time.time())
    ca_file = str(server.authorities)
    async with (
        server.serving(),
        new_session(AllowList.parse(["127.0.0.1/32"]), ca_file) as session,
    ):
        yield GitHubHarness(server, session, row, commit, clock, TokenCache(clock))


async def open_pull(github: GitHub, harness: GitHubHarness, **fields: Any) -> Any:
    return await github.open_pull_request(harness.repo, "", harness.request(**fields))


async def test_a_check_returns_the_account_and_missing_permissions(harness: GitHubHarness) -> None:
    account = await harness.github().check()
    assert (account.login, account.is_own, account.missing) == ("agentjobs[bot]", True, ())
    harness.server.app.permissions = {"metadata": "read", "contents": "read", "issues": "write"}
    missing = (await harness.github().check()).missing
    assert missing == (
        "Contents: read and write (to fetch and push)",
        "Pull requests: read and write (to open and follow pull requests)",
    )
    person = await harness.github("token").check()
    assert (person.login, person.is_own, person.missing) == ("agentjobs-bot", False, ())
    harness.server.scopes = "public_repo, gist"
    (missing_scope,) = (await harness.github("token").check()).missing
    assert missing_scope.startswith("repo (to fetch")
    # The scopes of a fine-grained token are unknown.
    harness.server.scopes = None
    assert (await harness.github("token").check()).missing == ()
    with pytest.raises(PlatformError, match=r"Bad credentials\); replace it") as got:
        await harness.github("token", "ghp_revoked").check()
    assert got.value.fault == "unauthorized"


async def test_a_check_names_the_features_that_need_more_permissions(
    harness: GitHubHarness,
) -> None:
    workflows, teams, checks = (await harness.github().check()).missing_extras
    assert workflows.startswith("Workflows: read and write (to change .github/workflows")
    assert teams == "Organization members: read-only (to request reviews from teams)"
    assert checks.startswith("Checks: read and write (to report the results of jobs")
    granted = {"workflows": "write", "members": "read", "checks": "write"}
    harness.server.app.permissions |= granted
    assert (await harness.github().check()).missing_extras == ()
    (scope,) = (await harness.github("token").check()).missing_extras
    assert scope.startswith("workflow (to change .github/workflows")
    harness.server.scopes = "repo, workflow"
    assert (await harness.github("token").check()).missing_extras == ()


async def test_workflows_are_pushed_and_teams_asked_once_the_app_may(
    harness: GitHubHarness, tmp_path: Path
) -> None:
    files = {".github/workflows/ci.yml": "on: push"}
    template = harness.server.add_repository("acme/template", {"README.md": "shop"})
    commit = harness.server.git.commit(template, "work", dict(files))
    own = harness.server.git.directory(template)
    harness.server.state.teams.add("acme/core")

    async def push_workflow(kind: str, branch: str) -> None:
        async with harness.github(kind).open_remote(harness.repo, "") as remote:
            await push(own, commit, branch, remote, expected=None)

    with pytest.raises(PushRejected, match="“Workflows: read and write”"):
        await push_workflow("app", "agentjobs/1")
    with pytest.raises(PushRejected, match="the scope `workflow`"):
        await push_workflow("token", "agentjobs/1")
    pull = await open_pull(harness.github(), harness, reviewers=("@acme/core",))
    assert "'core' could not be requested" in pull.notes[0]
    assert "“Organization members: read-only”" in pull.notes[0]
    # What an admin grants later counts with the next token.
    harness.server.app.permissions |= {"workflows": "write", "members": "read", "actions": "read"}
    harness.server.scopes = "repo,workflow"
    harness.clock.now += 3_600
    await push_workflow("app", "agentjobs/1")
    await push_workflow("token", "agentjobs/2")
    await open_pull(harness.github(), harness, reviewers=("@acme/core",))
    assert harness.row.pulls[pull.number].team_reviewers == ["core"]
    token = list(harness.server.app.tokens.values())[-1]
    assert "actions" not in token.permissions


async def test_a_permission_that_is_withdrawn_is_no_longer_asked_for(
    harness: GitHubHarness,
) -> None:
    harness.server.app.permissions["workflows"] = "write"
    await harness.github().repository(harness.repo)
    del harness.server.app.permissions["workflows"]
    harness.tokens.forget(("fcn_1", "4711", "815", str(harness.row.id)))
    assert (await harness.github().repository(harness.repo)).full_name == "acme/shop"
    assert len(harness.server.app.tokens) == 2


async def test_an_error_about_a_removed_installation_says_what_to_do(
    harness: GitHubHarness,
) -> None:
    harness.server.app.is_suspended = True
    with pytest.raises(PlatformError, match="suspended") as caught:
        await harness.github().check()
    assert caught.value.fault == "unauthorized"
    with pytest.raises(PlatformError, match="suspended") as caught:
        await harness.github().repository(harness.repo)
    assert caught.value.fault == "unauthorized"
    harness.server.app.is_suspended = False
    github = harness.github()
    harness.server.app.installation_id = 9
    with pytest.raises(PlatformError, match="no installation 815") as caught:
        await github.repository(harness.repo)
    assert caught.value.fault == "unauthorized"
    assert harness.clock.waits == []


async def test_all_pages_of_repositories_are_listed_with_a_token_only_for_that(
    harness: GitHubHarness,
) -> None:
    for number in range(120):
        harness.server.add_repository(f"acme/r{number}", own_role="read")
    harness.server.add_repository("acme/old", is_archived=True)
    harness.server.add_repository("acme/.github", is_empty=True)
    for kind in ("app", "token"):
        repositories = {
            repository.full_name: repository
            async for repository in harness.github(kind).repositories()
        }
        assert len(repositories) == 123
        assert repositories["acme/shop"].external_id == str(harness.row.id)
        assert (repositories["acme/shop"].default_branch, repositories["acme/shop"].may_push) == (
            "main",
            True,
        )
        assert repositories["acme/old"].is_archived
        assert repositories["acme/.github"].full_name == "acme/.github"
        assert repositories["acme/r7"].may_push is (kind == "app")
    (token,) = harness.server.app.tokens.values()
    assert token.permissions == {"metadata": "read"}


async def test_git_uses_a_token_for_one_repository(harness: GitHubHarness, tmp_path: Path) -> None:
    other = harness.server.add_repository("acme/other", {"a": "b"})
    async with harness.github().open_remote(harness.repo, "ajt_job") as remote:
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
    (token,) = harness.server.app.tokens.values()
    assert token.repositories == {harness.row.id}
    assert token.permissions["contents"] == "write"
    assert not harness.server.app.can_read(token, other.id)
    assert token.value not in repr(remote)
    assert token.value not in remote.url


async def test_a_pull_request_has_its_labels_and_all_existing_reviewers(
    harness: GitHubHarness,
) -> None:
    harness.row.roles = {"ann": "write", "bob": "read"}
    harness.server.app.permissions["members"] = "read"
    harness.server.state.teams.add("acme/core")
    reviewers = ("@ann", "nobody", "bob", "@acme/core", "@acme/gone", "agentjobs[bot]")
    pull = await open_pull(
        harness.github(), harness, draft=True, labels=("bot", "x" * 60, "bot"), reviewers=reviewers
    )
    row = harness.row.pulls[pull.number]
    assert (pull.draft, row.is_draft, row.title, row.base) == (True, True, "A change", "main")
    assert pull.url == f"{harness.server.url}/acme/shop/pull/{pull.number}"
    assert row.labels == ["bot"]
    assert (row.reviewers, row.team_reviewers) == (["ann", "bob"], ["core"])
    noted = [any(name in note for note in pull.notes) for name in ("x" * 60, "nobody", "gone")]
    assert noted == [True, True, True]
    assert len(pull.notes) == 3
    again = await open_pull(harness.github(), harness, is_follow_up=True, draft=True)
    assert (again.number, again.notes) == (pull.number, ())
    row.is_draft = False
    again = await open_pull(harness.github(), harness, is_follow_up=True, draft=True)
    assert (again.number, again.draft) == (pull.number, False)
    assert "back to a draft" in again.notes[0]


async def test_one_pull_request_is_opened_whichever_response_is_lost(
    harness: GitHubHarness,
) -> None:
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
        harness.server.git.set_branch(harness.row, branch, harness.commit)
        harness.tokens = TokenCache(harness.clock)
        harness.server.next(fault)
        harness.clock.messages.clear()
        pull = await open_pull(harness.github(), harness, head_branch=branch)
        assert [row.number for row in harness.row.pull_of_branch(branch)] == [pull.number]
        assert len(harness.clock.messages) <= 3
        existing = await harness.github().pull_of_branch(harness.repo, branch)
        assert existing is not None
        assert (existing.number, existing.state) == (pull.number, "open")
    assert len(harness.row.pulls) == len(faults)


async def test_concurrent_requests_open_one_pull_request_with_one_token(
    harness: GitHubHarness,
) -> None:
    github = harness.github()
    pulls = await asyncio.gather(*(open_pull(github, harness) for _ in range(6)))
    assert len({pull.number for pull in pulls}) == 1
    assert len(harness.row.pulls) == 1
    assert len(harness.server.app.tokens) == 1


async def test_without_draft_support_a_ready_pull_request_is_opened_with_a_note(
    harness: GitHubHarness,
) -> None:
    message = "Draft pull requests are not supported in this repository."
    harness.server.next(Fault(status=422, message=message, on=NEW_PULL))
    pull = await open_pull(harness.github(), harness, draft=True)
    assert not pull.draft
    assert "does not support drafts" in pull.notes[0]


async def test_a_branch_that_the_api_does_not_know_yet_is_retried(harness: GitHubHarness) -> None:
    harness.server.unknown_heads = 3
    pull = await open_pull(harness.github(seconds=0), harness)
    assert list(harness.row.pulls) == [pull.number]
    assert harness.clock.waits == [1, 2, 4]
    # A branch that does not exist is refused in the end, and so is any other field at once.
    with pytest.raises(PlatformError, match="head; invalid"):
        await open_pull(harness.github(), harness, head_branch="agentjobs/lint/none")
    assert harness.clock.waits == [1, 2, 4, 1, 2, 4, 8]
    harness.server.git.set_branch(harness.row, "agentjobs/lint/2", harness.commit)
    with pytest.raises(PlatformError, match="base; invalid"):
        await open_pull(
            harness.github(), harness, head_branch="agentjobs/lint/2", base_branch="none"
        )
    assert len(harness.clock.waits) == 7


async def test_permission_faults_are_final_and_name_the_permission(harness: GitHubHarness) -> None:
    await harness.github().repository(harness.repo)
    # The token is no longer new, so that its permissions are known everywhere.
    harness.clock.now += 60
    harness.server.next(forbidden("Resource not accessible by integration", on=NEW_PULL))
    with pytest.raises(PlatformError, match="“Pull requests: read and write”") as caught:
        await open_pull(harness.github(), harness)
    assert caught.value.fault == "denied"
    harness.row.own_role = "read"
    with pytest.raises(PlatformError, match="“Pull requests: read and write”"):
        await open_pull(harness.github("token"), harness)
    app = harness.server.app
    app.permissions = {"contents": "write", "metadata": "read", "issues": "write"}
    harness.tokens = TokenCache(harness.clock)
    with pytest.raises(PlatformError, match="not granted the permission “Pull requests") as caught:
        await open_pull(harness.github(), harness)
    assert caught.value.fault == "denied"
    # An App without access to issues still opens pull requests.
    app.permissions = {"contents": "write", "metadata": "read", "pull_requests": "write"}
    await open_pull(harness.github(), harness, labels=("bot",))
    assert harness.clock.waits == []


async def test_a_repository_the_app_is_not_installed_on_is_gone(harness: GitHubHarness) -> None:
    harness.server.app.repository_ids = set()
    with pytest.raises(PlatformError, match="not installed on acme/shop") as caught:
        await harness.github().repository(harness.repo)
    assert caught.value.fault == "gone"


async def test_a_rename_is_followed_and_a_new_repository_of_that_name_is_another_one(
    harness: GitHubHarness,
) -> None:
    harness.server.state.rename(harness.row, "acme/store")
    for kind in ("app", "token"):
        repository = await harness.github(kind).repository(harness.repo)
        assert (repository.full_name, repository.external_id) == ("acme/store", str(harness.row.id))
    pull = await open_pull(harness.github(), harness, labels=("bot",))
    assert harness.row.pulls[pull.number].labels == ["bot"]
    assert (await open_pull(harness.github(), harness, labels=("more",))).number == pull.number
    assert harness.row.pulls[pull.number].labels == ["bot", "more"]
    await harness.github().comment(harness.repo, pull.number, "Hello")
    harness.server.add_repository("acme/shop", {"a": "b"})
    with pytest.raises(PlatformError, match="no longer the repository") as caught:
        await harness.github("token").repository(harness.repo)
    assert caught.value.fault == "gone"


async def test_a_repository_of_size_zero_is_checked_for_commits(harness: GitHubHarness) -> None:
    empty = harness.server.add_repository("acme/new", is_empty=True)
    address = RepoAddress("acme", "acme/new", "", "")
    assert (await harness.github().repository(address)).default_branch == ""
    assert (await harness.github("token").repository(address)).external_id == str(empty.id)


async def test_tokens_that_were_revoked_early_are_replaced(harness: GitHubHarness) -> None:
    pull = await open_pull(harness.github(), harness)
    harness.server.app.tokens.clear()
    now = await harness.github().pull(harness.repo, pull.number)
    assert (now.state, now.head_commit, now.url) == ("open", harness.commit, pull.url)
    harness.server.app.tokens.clear()
    await harness.github().comment(harness.repo, pull.number, "Still here")
    harness.clock.now += 3_400
    await harness.github().pull(harness.repo, pull.number)
    assert len(harness.server.app.tokens) == 2


async def test_a_new_token_is_retried_until_github_has_replicated_it(
    harness: GitHubHarness,
) -> None:
    harness.server.app.replication_seconds = 5
    # Even without a budget for retries: these waits are short.
    pull = await open_pull(harness.github(seconds=0), harness)
    assert pull.number in harness.row.pulls
    assert len(harness.server.app.tokens) == 1
    assert harness.clock.waits == [1, 2, 4]
    assert "does not accept a new credential yet (401)" in harness.clock.messages[0]
    # A token that is never accepted is refused after that.
    harness.server.app.replication_seconds = 1_000
    harness.tokens = TokenCache(harness.clock)
    with pytest.raises(PlatformError, match="Bad credentials") as caught:
        await harness.github().repository(harness.repo)
    assert caught.value.fault == "unauthorized"
    assert harness.clock.waits == [1, 2, 4] * 2


async def test_git_is_told_that_a_token_is_new(harness: GitHubHarness) -> None:
    github = harness.github()
    for is_fresh in (True, False):
        async with github.open_remote(harness.repo, "") as remote:
            assert remote.is_fresh is is_fresh
        harness.clock.now += 60
    async with harness.github("token").open_remote(harness.repo, "") as remote:
        assert not remote.is_fresh


async def test_pull_requests_are_returned_in_their_current_state(harness: GitHubHarness) -> None:
    github = harness.github()
    pull = await open_pull(github, harness)
    row = harness.row.pulls[pull.number]
    row.is_merged, row.head_commit = True, harness.commit
    assert (await github.pull(harness.repo, pull.number)).state == "merged"
    assert (await open_pull(github, harness)).number == pull.number
    with pytest.raises(PlatformError, match="merged before"):
        await open_pull(github, harness, head_commit="c" * 40, is_follow_up=True)
    row.is_merged, row.state = False, "closed"
    with pytest.raises(PlatformError, match="closed without merging"):
        await open_pull(github, harness)
    with pytest.raises(PlatformError) as caught:
        await github.pull(harness.repo, 99)
    assert caught.value.fault == "gone"


async def test_comments_and_issues_are_read_and_written_once(harness: GitHubHarness) -> None:
    github, state = harness.github(), harness.server.state
    pull = await open_pull(github, harness)
    row = harness.row.pulls[pull.number]
    for number in range(130):
        state.add_comment(row, "ann", f"{number}")
    comments = await github.comments(harness.repo, pull.number, CommentCursor())
    assert [comment.text for comment in comments] == [str(number) for number in range(130)]
    newer = await github.comments(harness.repo, pull.number, CommentCursor(comments[127].id))
    assert [(comment.author, comment.text) for comment in newer] == [("ann", "128"), ("ann", "129")]
    harness.server.next(cut(on="POST /repos/{owner}/{repo}/issues", after=True))
    await github.comment(harness.repo, pull.number, "Done \x00" + "x" * 70_000)
    assert [comment.text[:4] for comment in row.comments[130:]] == ["Done"]
    issue = state.add_issue(harness.row, "Broken", text="It is.", labels=["bug"])
    returned = await github.issue("acme/shop", issue.number)
    assert (returned.title, returned.text, returned.labels) == ("Broken", "It is.", ("bug",))
    assert (returned.full_name, returned.url.endswith(f"/issues/{issue.number}")) == (
        "acme/shop",
        True,
    )
    await github.comment_on_issue("acme/shop", issue.number, "See there")
    assert [comment.text for comment in issue.comments] == ["See there"]
    with pytest.raises(PlatformError) as caught:
        await github.issue("acme/shop", 4_711)
    assert caught.value.fault == "gone"


async def test_write_access_is_read_from_github(harness: GitHubHarness) -> None:
    harness.row.roles = {"ann": "maintain", "bob": "triage", "eve[bot]": "write"}
    for login in ("ann", "bob", "eve[bot]"):
        harness.server.state.user(login)
    results = [
        await harness.github().may_write(harness.repo, login)
        for login in ("ann", "bob", "eve[bot]", "nobody")
    ]
    assert results == [True, False, True, False]
    with pytest.raises(PlatformError):
        await harness.github().may_write(harness.repo, "..")


async def test_a_conversation_is_read_from_its_end(harness: GitHubHarness) -> None:
    github = harness.github("token")
    pull = await open_pull(github, harness)
    row = harness.row.pulls[pull.number]
    written = [harness.server.state.add_comment(row, "ada", f"word {at}") for at in range(130)]
    ids = [comment.id for comment in written]
    # One request in each is for reviews, of which there are none.
    for after, requests in ((0, 7), (ids[-3], 3), (ids[100], 4), (ids[-1], 3)):
        harness.server.calls.clear()
        comments = await github.comments(harness.repo, pull.number, CommentCursor(after))
        assert [comment.id for comment in comments] == [number for number in ids if number > after]
        assert len(harness.server.calls) == requests
    # A comment written despite an error response is found at the end as well.
    harness.server.next(server_error(502, on="POST ", after=True))
    await github.comment(harness.repo, pull.number, "Done.")
    assert [comment.text for comment in row.comments].count("Done.") == 1
