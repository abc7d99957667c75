"""Forges under test: `local` on either engine, and each platform against its contract server."""

import asyncio
import contextlib
import shutil
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from agentjobs.connections.adapters import NewPlatform
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.gitea.adapter import Gitea
from agentjobs.platforms.github.adapter import GitHub
from agentjobs.platforms.gitlab.adapter import GitLab
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import (
    BasePlatform,
    Platform,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.store.opening import open_database
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import guarded_socket_factory
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.git_remote import GitRemote
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.forge_servers.state import RepositoryRow
from tests.support.git_commands import FILES, git_output
from tests.support.local_repository import CREDENTIAL, make_platform

LOCAL = ("local-sqlite", "local-postgresql")
PLATFORMS = ("github", "github-app", "gitlab", "gitea")
BRANCHES = ("agentjobs/one", "agentjobs/two")
LOOPBACK = AllowList.parse(["127.0.0.0/8"])

_SERVERS: dict[str, type[ContractServer]] = {
    "github": GitHubServer,
    "gitlab": GitLabServer,
    "gitea": GiteaServer,
}
_ADAPTERS: dict[str, NewPlatform] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}
# The operation that opens a pull request.
CREATES = {
    "github": "POST /repos/{owner}/{repo}/pulls",
    "gitlab": "POST /projects/{id}/merge_requests",
    "gitea": "POST /repos/{owner}/{repo}/pulls",
}


@dataclass
class AdapterHarness:
    """A forge with a repository that has branches to propose."""

    adapter: BasePlatform
    repo: RepoAddress
    commits: dict[str, str]
    base: str
    git_dir: Path
    messages: list[str] = field(default_factory=list)

    def request(self, branch: str = BRANCHES[0], **fields: object) -> PullRequestRequest:
        tokens = {
            "head_branch": branch,
            "base_branch": "main",
            "head_commit": self.commits.get(branch, self.commits[BRANCHES[0]]),
            "base_commit": self.base,
            "title": "A change",
            "body": "Because.",
            **fields,
        }
        return PullRequestRequest(**tokens)  # type: ignore[arg-type]

    async def open(self, branch: str = BRANCHES[0], **fields: object) -> PullRequest:
        return await self.adapter.open_pull_request(
            self.repo, CREDENTIAL, self.request(branch, **fields)
        )

    def push(self, *branches: str) -> None:
        """Point the branches at the head of the first branch, as if a job had pushed them."""
        for branch in branches:
            file = self.git_dir / "refs" / "heads" / branch
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{self.commits[BRANCHES[0]]}\n")


class SimulatedClock:
    """A clock that sleeping advances, so that no test waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return sum(self.waits)

    def time_of_day(self) -> float:
        return time.time() + self.now()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        # Let other waiters run.
        await asyncio.sleep(0)


@dataclass
class PlatformHarness(AdapterHarness):
    """`platform` has a retry budget of one simulated hour."""

    kind: str = ""
    server: ContractServer = field(kw_only=True)
    platform: Platform = field(kw_only=True)
    row: RepositoryRow = field(kw_only=True)
    clock: SimulatedClock = field(kw_only=True)
    secrets: list[str] = field(default_factory=list)

    @property
    def creates(self) -> str:
        return CREATES[self.server.platform]

    async def error_of(self, request: Awaitable[object]) -> PlatformError:
        """The error of `request`; neither it nor its causes contain a credential."""
        with pytest.raises(PlatformError) as raised:
            await request
        for error in _chain(raised.value):
            for secret in self.known_secrets:
                assert secret not in f"{error} {error!r}"
        return raised.value

    @property
    def known_secrets(self) -> list[str]:
        tokens = self.server.app.tokens if isinstance(self.server, GitHubServer) else ()
        return [*self.secrets, *tokens]


@contextlib.asynccontextmanager
async def local_platform_harness(
    database_url: str, directory: Path, template: Path
) -> AsyncIterator[AdapterHarness]:
    db = await open_database(database_url, migrate=False)
    try:
        platform = await make_platform(db, directory)
        refs = [f"{name}:{name}" for name in BRANCHES]
        git_output("fetch", "--quiet", str(template), *refs, cwd=platform.git_dir)
        commits = {name: platform.head(name) for name in BRANCHES}
        yield AdapterHarness(
            platform.adapter, platform.repo, commits, platform.head(), platform.git_dir
        )
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def platform_harness(
    kind: str, directory: Path, template: Path
) -> AsyncIterator[PlatformHarness]:
    server = _SERVERS[kind.partition("-")[0]](directory)
    row = server.add_repository("acme/shop")
    shutil.copytree(template, server.git.directory(row))
    async with server.serving(), _session(server) as session:
        clock = SimulatedClock()
        server.clock = clock.time_of_day
        messages: list[str] = []
        connection = connection_to(server, as_app=kind == "github-app")
        credential = credential_of(server, connection)
        platform = _ADAPTERS[server.platform](
            connection,
            credential,
            session,
            GitTransport(LOOPBACK, server.authorities),
            RetryBudget(
                3_600,
                messages.append,
                clock=clock.now,
                time_of_day=clock.time_of_day,
                sleep=clock.sleep,
            ),
        )
        heads = {name: server.git.head(row, name) or "" for name in (*BRANCHES, "main")}
        yield PlatformHarness(
            platform,
            RepoAddress("acme", row.full_name, "repo_1", str(row.id)),
            heads,
            heads["main"],
            server.git.directory(row),
            messages,
            kind=kind,
            server=server,
            platform=platform,
            row=row,
            clock=clock,
            secrets=[credential],
        )


def _session(server: ContractServer) -> aiohttp.ClientSession:
    """Like the service's session, but it trusts only the test authority: loading the system's
    authorities takes longer than most tests here."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=ssl.create_default_context(cafile=server.authorities),
            socket_factory=guarded_socket_factory(LOOPBACK),
        ),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def connection_to(server: ContractServer, *, as_app: bool = False) -> Connection:
    app = server.app if as_app and isinstance(server, GitHubServer) else None
    return Connection(
        id="fcn_1",
        organization_id="org_1",
        platform=server.platform,
        kind="token" if app is None else "app",
        name=server.platform,
        url=server.url,
        app_id=None if app is None else str(app.id),
        installation_id=None if app is None else str(app.installation_id),
    )


def credential_of(server: ContractServer, connection: Connection) -> str:
    """The connection's credential: the App's private key, or a token."""
    if connection.kind == "app" and isinstance(server, GitHubServer):
        return server.app.private_key
    return server.token


def make_template(directory: Path) -> Path:
    """A bare repository with the branches, to be copied: faster than creating each one."""
    git = GitRemote(directory)
    row = RepositoryRow(1, "acme/template")
    git.create(row, dict(FILES))
    for branch in BRANCHES:
        git.commit(row, branch, {"new.txt": branch})
    directory = git.directory(row)
    # Few files, so that a copy costs little.
    git_output("repack", "-a", "-d", "--quiet", cwd=directory)
    git_output("prune-packed", cwd=directory)
    shutil.rmtree(directory / "hooks")
    return directory


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
