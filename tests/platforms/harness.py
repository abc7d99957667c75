"""The adapter on a repository of a live server, with the branches of the conformance suite."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.gitea.adapter import Gitea
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import RepoAddress
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.platforms.live_server import ADMIN, LiveServer, call
from tests.support.git_commands import git_output
from tests.support.platform_adapters import BRANCHES, LOOPBACK, AdapterHarness
from tests.support.service import wait_until

BOT = "agentjobs-bot"


@dataclass
class LiveHarness(AdapterHarness):
    """`git_dir` is a copy whose branches `push` sends to the server."""

    server: LiveServer = field(kw_only=True)
    platform: Gitea = field(kw_only=True)

    @property
    def path(self) -> str:
        return f"/repos/{self.repo.full_name}"

    def push(self, *branches: str) -> None:
        commit = self.commits[BRANCHES[0]]
        self.push_commit(commit, *branches)

    def push_commit(self, commit: str, *branches: str) -> None:
        refspecs = [f"{commit}:refs/heads/{branch}" for branch in branches]
        self.server.push(self.git_dir, self.repo.full_name, *refspecs)

    def act(self, login: str, method: str, path: str, body: object = None) -> Any:
        """`path` is below the repository."""
        return call(self.server.person(login).api, method, f"{self.path}{path}", body)

    def let_collaborate(self, login: str, permission: str) -> None:
        self.server.person(login)
        self.act(ADMIN, "PUT", f"/collaborators/{login}", {"permission": permission})

    def pull_json(self, number: int) -> dict[str, Any]:
        return dict(self.act(ADMIN, "GET", f"/pulls/{number}"))

    def close(self, number: int) -> None:
        self.act(ADMIN, "PATCH", f"/pulls/{number}", {"state": "closed"})

    def merge(self, number: int) -> None:
        """Retried, because the server tests for conflicts after it has responded to a push."""
        api, path = self.server.person(ADMIN).api, f"{self.path}/pulls/{number}/merge"
        wait_until(lambda: api.post(path, json={"Do": "merge"}).is_success, "the merge")


@contextlib.asynccontextmanager
async def live_harness(
    server: LiveServer, template: Path, owner: str = ""
) -> AsyncIterator[LiveHarness]:
    """A new repository of `owner`, by default of a new organization that the bot owns."""
    server.person(BOT)
    if not owner:
        owner = server.new_organization()
        server.add_owner(owner, BOT)
    created = server.new_repository(owner)
    full_name = created["full_name"]
    server.push(template, full_name, "main", *BRANCHES)
    wait_until(lambda: not call(server.admin, "GET", f"/repos/{full_name}")["empty"], "the push")
    heads = {name: git_output("rev-parse", name, cwd=template) for name in (*BRANCHES, "main")}
    async with new_adapter(server) as platform:
        yield LiveHarness(
            platform,
            RepoAddress("acme", full_name, "repo_1", str(created["id"])),
            heads,
            heads["main"],
            template,
            server=server,
            platform=platform,
        )


@contextlib.asynccontextmanager
async def new_adapter(server: LiveServer, token: str = "") -> AsyncIterator[Gitea]:
    """Of the bot's account, with the scopes that docs/platforms.md asks for."""
    connection = Connection(
        id="fcn_1",
        organization_id="org_1",
        platform="gitea",
        kind="token",
        name="gitea",
        url=server.url,
        account=BOT,
    )
    async with new_session(LOOPBACK, str(server.authorities)) as session:
        transport = GitTransport(LOOPBACK, server.authorities)
        token = token or server.new_token(BOT)
        yield Gitea(connection, token, session, transport, RetryBudget(60))
