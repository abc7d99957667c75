"""The adapter against a real Gitea or Forgejo, if the environment names one.

AGENTJOBS_TEST_GITEA_URL and AGENTJOBS_TEST_GITEA_TOKEN, an account's token with the scopes
write:repository, write:issue and write:user (to create a repository). The tests delete what they
create.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.gitea.adapter import Gitea
from agentjobs.forges.http.client import PlatformApi, RetryBudget
from agentjobs.forges.protocol import (
    CommentCursor,
    ForgeError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.git.process import git
from agentjobs.git.remote import NETWORK_PROTOCOLS
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.outbound.guard.sessions import new_session
from tests.support.local_repository import commit_files, git_output

URL = os.environ.get("AGENTJOBS_TEST_GITEA_URL", "")
TOKEN = os.environ.get("AGENTJOBS_TEST_GITEA_TOKEN", "")
EVERYWHERE = AllowList.parse(["0.0.0.0/0", "::/0"])
ONE, TWO, THREE = "agentjobs/one", "agentjobs/two", "agentjobs/größe#3&state=closed"

pytestmark = pytest.mark.skipif(not (URL and TOKEN), reason="AGENTJOBS_TEST_GITEA_URL is not set")


@dataclass
class GiteaHarness:
    """`api` acts as people do; commits are created in `tree`."""

    platform: Gitea
    api: PlatformApi
    repo: RepoAddress
    tree: Path
    is_old: bool

    @property
    def path(self) -> str:
        return f"/repos/{self.repo.full_name}"

    async def push(self, branch: str, content: str) -> str:
        commit = commit_files(self.tree, {"new.txt": content}, f"Change {content}")
        async with self.platform.open_remote(self.repo, "") as remote:
            await git(
                *("push", "--quiet", remote.url, f"HEAD:refs/heads/{branch}"),
                git_dir=self.tree / ".git",
                configuration=remote.configuration,
                environment=remote.environment,
                protocols=NETWORK_PROTOCOLS,
            )
        return commit

    async def open(self, branch: str, commit: str, **fields: Any) -> PullRequest:
        values = {"title": "A change", "body": "Because.", "base_commit": "", **fields}
        request = PullRequestRequest(
            head_branch=branch, base_branch="main", head_commit=commit, **values
        )
        return await self.platform.open_pull_request(self.repo, "", request)

    async def merge(self, number: int) -> None:
        async def is_merged() -> bool:
            try:
                await self.api.post(f"{self.path}/pulls/{number}/merge", {"Do": "merge"})
            except ForgeError:
                return False
            return True

        await eventually(is_merged)

    async def has_commits(self) -> bool:
        return bool((await self.platform.repository(self.repo)).default_branch)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Gitea responds to a push before it has processed it."""
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)  # polling: Gitea sends no signal


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GiteaHarness]:
    certificates = os.environ.get("SSL_CERT_FILE")
    connection = Connection(
        id="fcn_1", organization_id="org_1", platform="gitea", kind="token", name="g", url=URL
    )
    async with new_session(EVERYWHERE, certificates) as session:
        transport = GitTransport(EVERYWHERE, Path(certificates) if certificates else None)
        platform = Gitea(connection, TOKEN, session, transport, RetryBudget(60))
        api = _api_client(session)
        created = await api.post("/user/repos", {"name": f"try-{secrets.token_hex(4)}"})
        repo = RepoAddress("acme", created["full_name"], "repo_1", str(created["id"]))
        version = (await api.get("/version"))["version"]
        git_output("init", "--quiet", "--initial-branch=main", cwd=tmp_path)
        try:
            yield GiteaHarness(
                platform, api, repo, tmp_path, version.startswith(("1.15.", "1.16."))
            )
        finally:
            now = await api.get(f"/repositories/{created['id']}")
            await api.delete(f"/repos/{now['full_name']}")


def _api_client(session: aiohttp.ClientSession) -> PlatformApi:
    async def headers() -> dict[str, str]:
        return {"Authorization": f"token {TOKEN}"}

    return PlatformApi(
        session, f"{URL}/api/v1", platform="Gitea", headers=headers, retry_budget=RetryBudget(60)
    )


async def test_a_repository_is_read_correctly_from_empty_to_renamed(harness: GiteaHarness) -> None:
    platform, repo = harness.platform, harness.repo
    account = await platform.check()
    assert account.missing == ()
    assert repo.full_name.startswith(f"{account.login}/")
    assert (await platform.repository(repo)).default_branch == ""
    await harness.push("main", "first")
    await eventually(harness.has_commits)
    remote = await platform.repository(repo)
    assert (remote.default_branch, remote.may_push, remote.is_archived) == ("main", True, False)
    assert remote in [repository async for repository in platform.repositories()]
    assert await platform.may_write(repo, "nobody-here-at-all") is False
    if not harness.is_old:
        assert await platform.may_write(repo, account.login)
    await harness.api.patch(harness.path, {"name": f"renamed-{repo.full_name.partition('/')[2]}"})
    renamed = await platform.repository(repo)
    assert renamed.full_name.endswith(f"/renamed-{repo.full_name.partition('/')[2]}")
    created = await harness.api.post(f"/repos/{renamed.full_name}/issues", {"title": "It breaks"})
    # Gitea redirects from the former name.
    issue = await platform.issue(repo.full_name, created["number"])
    assert (issue.title, issue.text, issue.full_name) == ("It breaks", "", renamed.full_name)
    await platform.comment_on_issue(issue.full_name, issue.number, "A pull request is open.")
    await harness.push(ONE, "after the rename")
    assert (await harness.open(ONE, "0" * 40)).url.startswith(f"{URL}/{renamed.full_name}/pulls/")


async def test_a_pull_request_is_opened_commented_on_and_closed(harness: GiteaHarness) -> None:
    platform, repo = harness.platform, harness.repo
    await harness.push("main", "first")
    commit = await harness.push(ONE, "one")
    options: dict[str, Any] = {
        "labels": ("bug", "agent jobs"),
        "reviewers": ("@nobody-here-at-all", "@elsewhere/team", repo.full_name.partition("/")[0]),
    }
    opened = await harness.open(ONE, commit, draft=True, title="Fix <it>", **options)
    assert opened.draft
    assert len(opened.notes) == 2, opened.notes
    again = await harness.open(ONE, commit, title="Another title")
    assert (again.number, again.draft, again.notes) == (opened.number, True, ())
    now = await platform.pull(repo, opened.number)
    assert (now.title, now.state, now.draft) == ("Fix <it>", "open", True)
    assert now.head_commit == commit
    pull_json = await harness.api.get(f"{harness.path}/pulls/{opened.number}")
    assert {label["name"] for label in pull_json["labels"]} == {"bug", "agent jobs"}
    existing = await platform.pull_of_branch(repo, ONE)
    assert existing is not None
    assert (existing.number, existing.title, existing.state) == (opened.number, "Fix <it>", "open")
    await platform.comment(repo, opened.number, "First \x00 ü")
    (first,) = await platform.comments(repo, opened.number, CommentCursor())
    await platform.comment(repo, opened.number, "Second")
    (second,) = await platform.comments(repo, opened.number, CommentCursor(first.id))
    assert (second.text, second.author) == ("Second", (await platform.check()).login)
    await harness.api.patch(f"{harness.path}/pulls/{opened.number}", {"title": "Ready"})
    assert not (await platform.pull(repo, opened.number)).draft
    assert (await harness.open(ONE, commit, draft=True, is_follow_up=True)).draft
    await harness.api.patch(f"{harness.path}/pulls/{opened.number}", {"state": "closed"})
    assert (await platform.pull(repo, opened.number)).state == "closed"
    with pytest.raises(ForgeError, match="closed without merging"):
        await harness.open(ONE, commit)
    odd = await harness.push(THREE, "three")
    third = await harness.open(THREE, odd)
    branch = await platform.pull_of_branch(repo, THREE)
    assert branch is not None
    assert branch.number == third.number
    with pytest.raises(ForgeError, match="no longer has a pull request"):
        await harness.open("agentjobs/none", odd, is_follow_up=True)


async def test_a_merged_pull_request_has_the_head_that_was_merged(harness: GiteaHarness) -> None:
    await harness.push("main", "first")
    merged = await harness.push(TWO, "two")
    opened = await harness.open(TWO, merged)
    await harness.merge(opened.number)
    now = await harness.platform.pull(harness.repo, opened.number)
    assert (now.state, now.head_commit) == ("merged", merged)
    assert (await harness.open(TWO, merged)).number == opened.number
    later = await harness.push(TWO, "later")
    # The branch has new commits that were not merged.
    assert (await harness.platform.pull(harness.repo, opened.number)).head_commit == merged
    with pytest.raises(ForgeError, match="was merged before"):
        await harness.open(TWO, later, is_follow_up=True)
    assert (await harness.open(TWO, later)).number > opened.number
