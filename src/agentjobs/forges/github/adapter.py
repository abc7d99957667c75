"""The platform GitHub, github.com or Enterprise, through one connection: an App or a token."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import aiohttp
import msgspec

from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.github.access import App, GitHubAccess
from agentjobs.forges.github.app import TO_WORK, Scope, TokenCache, in_words, lacking
from agentjobs.forges.github.pulls import ISSUES, PULLS, RepositoryPulls
from agentjobs.forges.github.responses import (
    Branch,
    Pull,
    Repository,
    RepositoryPage,
    Role,
    User,
    WholeIssue,
)
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget, path_of
from agentjobs.forges.http.decode import shaped
from agentjobs.forges.http.pagination import ALL_REPOSITORIES
from agentjobs.forges.protocol import (
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    ForgeError,
    Issue,
    PullRequest,
    PullRequestRequest,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.forges.validate import plausible
from agentjobs.git.remote import Remote, basic_authorization

_NAME = "GitHub"
_METADATA = "Metadata: read-only"
_CONTENTS = "Contents: read and write"
_CLASSIC_SCOPE = "repo"
_ALL = Scope()
Made = TypeVar("Made")


class GitHub:
    """`tokens` are those of Apps, kept over connections and calls."""

    platform = "github"

    def __init__(
        self,
        connection: Connection,
        credential: str,
        session: aiohttp.ClientSession,
        git_transport: GitTransport,
        retry_budget: RetryBudget,
        tokens: TokenCache | None = None,
    ) -> None:
        self._url = connection.url.rstrip("/")
        self._git_transport = git_transport
        self._retry_budget = retry_budget
        self._access = GitHubAccess(
            connection, credential, session, retry_budget, tokens or TokenCache()
        )

    async def check(self) -> Account:
        return await (self._check_app() if self._access.is_app else self._check_token())

    @contextlib.asynccontextmanager
    async def open_remote(self, repo: RepoAddress, credential: str) -> AsyncIterator[Remote]:  # noqa: ARG002 - a job's right is nothing to GitHub
        # Its name may be another repository's by now, and a token that was kept may be revoked: git
        # would not find out, and asks nobody for another.
        now = await self.repository(repo)
        token = await self._access.token(_scope(repo))
        url = f"{self._url}{path_of(*now.full_name.split('/'))}.git"
        async with self._git_transport.to(
            url, basic_authorization("x-access-token", token)
        ) as remote:
            yield remote

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        if not self._access.is_app:
            api = self._access.api(_ALL)
            async for page in api.pages(
                list[Repository],
                "/user/repos",
                needs=_METADATA,
                bounds=ALL_REPOSITORIES,
                per_page=100,
            ):
                for one in page:
                    yield plausible(_NAME, one.seen())
            return
        # What GitHub says there of an App's rights is about a person who is not there.
        granted = (await self._access.installation(self._access.as_app())).permissions
        may_push = not lacking(granted, {"contents": "write"})
        api = self._access.api(_ALL)
        path = "/installation/repositories"
        async for part in api.pages(
            RepositoryPage, path, needs=_METADATA, bounds=ALL_REPOSITORIES, per_page=100
        ):
            for one in part.repositories:
                yield plausible(_NAME, one.seen(may_push=may_push))

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        api = self._access.api(_scope(repo))
        found = await api.get_as(Repository, _path(repo.full_name), needs=_METADATA)
        if repo.external_id and str(found.id) != repo.external_id:
            words = f"{repo.full_name} on GitHub is another repository than the one that was"
            raise ForgeError(f"{words} connected, which is gone; connect it anew.", "gone")
        seen = plausible(_NAME, found.seen(may_push=True if self._access.is_app else None))
        if not (seen.default_branch and found.is_perhaps_empty):
            return seen
        has_commits = await _has_branch(api, seen.full_name, seen.default_branch)
        return seen if has_commits else msgspec.structs.replace(seen, default_branch="")

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - a job's right is nothing to GitHub
        request: PullRequestRequest,
    ) -> PullRequest:
        return await self._where_it_is(repo, lambda pulls: pulls.open(request))

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        found = await self._pulls(repo, repo.full_name).of_branch(branch)
        return None if found is None else plausible(_NAME, found.of_branch)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        api = self._access.api(_scope(repo))
        found = await api.get_as(Pull, f"{_path(repo.full_name)}/pulls/{number}", needs=PULLS)
        return plausible(_NAME, found.now)

    async def comments(self, repo: RepoAddress, number: int, heard: CommentCursor) -> list[Comment]:
        return await self._pulls(repo, repo.full_name).comments(number, heard)

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self._where_it_is(repo, lambda pulls: pulls.comment(number, text, PULLS))

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        api = self._access.api(_scope(repo))
        path = f"{_path(repo.full_name)}{path_of('collaborators', login, 'permission')}"
        try:
            return (await api.get_as(Role, path, needs=_METADATA)).may_write
        except ApiError as error:
            if error.fault == "gone":
                return False
            raise

    async def issue(self, full_name: str, number: int) -> Issue:
        api = self._access.api(Scope(full_name=full_name))
        path = f"{_path(full_name)}/issues/{number}"
        found = await api.get_as(WholeIssue, path, needs=ISSUES)
        return plausible(_NAME, found.issue(full_name))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        repo = RepoAddress("", full_name, "")
        await self._where_it_is(repo, lambda pulls: pulls.comment(number, text, ISSUES))

    async def _check_app(self) -> Account:
        api = self._access.as_app()
        app = await api.get_as(App, "/app")
        installation = await self._access.installation(api)
        if installation.suspended_at is not None:
            words = "The installation of the GitHub App is suspended; unsuspend it on GitHub."
            raise ForgeError(words, "denied")
        missing = in_words(lacking(installation.permissions, TO_WORK))
        return plausible(_NAME, Account(f"{app.slug}[bot]", is_own=True, missing=missing))

    async def _check_token(self) -> Account:
        api = self._access.api(_ALL)
        answer = await api.ask("GET", "/user")
        login = shaped(_NAME, answer, User).login
        # Only of a classic token it is said what it may do.
        told = answer.headers.get("X-OAuth-Scopes")
        scopes = [_CLASSIC_SCOPE] if told is None else [one.strip() for one in told.split(",")]
        missing = () if _CLASSIC_SCOPE in scopes else (_CLASSIC_SCOPE,)
        return plausible(_NAME, Account(login, is_own=False, missing=missing))

    async def _where_it_is(
        self, repo: RepoAddress, act: Callable[[RepositoryPulls], Awaitable[Made]]
    ) -> Made:
        """Once more under its new name after a rename: only reading is redirected."""
        try:
            return await act(self._pulls(repo, repo.full_name))
        except ApiError as error:
            if not error.has_moved:
                raise
        now = await self.repository(repo)
        return await act(self._pulls(repo, now.full_name))

    def _pulls(self, repo: RepoAddress, full_name: str) -> RepositoryPulls:
        return RepositoryPulls(self._access.api(_scope(repo)), self._retry_budget, full_name)


def _scope(repo: RepoAddress) -> Scope:
    return Scope(repo.external_id, repo.full_name)


def _path(full_name: str) -> str:
    owner, _, name = full_name.partition("/")
    return path_of("repos", owner, name)


async def _has_branch(api: PlatformApi, full_name: str, branch: str) -> bool:
    try:
        path = f"{_path(full_name)}{path_of('branches', branch)}"
        await api.get_as(Branch, path, needs=_CONTENTS)
    except ApiError as error:
        if error.fault != "gone":
            raise
        return False
    return True
