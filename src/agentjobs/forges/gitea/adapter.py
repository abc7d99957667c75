"""Gitea and Forgejo, through an access token of an account there.

Refuses to know jobs and tables.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp

from agentjobs.forges.comments import NewerComments
from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.gitea.extras import READS_ISSUES, WRITES_ISSUES, PullExtras
from agentjobs.forges.gitea.pulls import READS, WRITES, Pulls, numbered_pages
from agentjobs.forges.gitea.responses import (
    MOST_BODY,
    Access,
    CommentAnswer,
    CommentTime,
    IssueAnswer,
    Repository,
    User,
)
from agentjobs.forges.gitea.reviews import Reviews
from agentjobs.forges.http.client import PlatformApi, RetryBudget, path_of
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
from agentjobs.forges.text import cut
from agentjobs.forges.validate import plausible
from agentjobs.git.remote import Remote, basic_authorization

_NAME = "Gitea"
# Of a shorter conversation all is read: cheaper than to ask first since when.
_MOST_READ_AGAIN = 50
_READS_USER = "read:user"
_ADMINISTERS = "admin of the repository, so that it may ask who may write there"
# No repository can have this name, and the token's scopes are looked at before it is looked for.
_NO_REPOSITORY = "-"


class Gitea:
    """Seen through one connection. Names that repositories have now are kept: one for each use."""

    platform = "gitea"

    def __init__(
        self,
        connection: Connection,
        credential: str,
        session: aiohttp.ClientSession,
        git_transport: GitTransport,
        retry_budget: RetryBudget,
    ) -> None:
        self._url = connection.url.rstrip("/")
        self._account = connection.account
        self._token = credential
        self._git_transport = git_transport
        self._retry_budget = retry_budget
        self._seen: dict[str, RemoteRepository] = {}
        self._comment_counts: dict[tuple[str, int], int] = {}
        self._api = PlatformApi(
            session,
            f"{self._url}/api/v1",
            platform=_NAME,
            headers=self._headers,
            retry_budget=retry_budget,
        )

    @contextlib.asynccontextmanager
    async def open_remote(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
    ) -> AsyncIterator[Remote]:
        full_name = await self._full_name(repo)
        url = f"{self._url}{path_of(*full_name.split('/'))}.git"
        # The token says who it is; Gitea looks at the name only if that is none.
        async with self._git_transport.to(
            url, basic_authorization(self._account or "agentjobs", self._token)
        ) as remote:
            yield remote

    async def check(self) -> Account:
        user = await self._api.get_as(User, "/user", needs=_READS_USER)
        nowhere = path_of("repos", user.login, _NO_REPOSITORY)
        probes = {
            WRITES: (f"{nowhere}/pulls", {}),
            WRITES_ISSUES: (f"{nowhere}/labels", {"name": "none", "color": "#ededed"}),
        }
        missing = [
            scope
            for scope, (path, body) in probes.items()
            if not await self._has_scope(scope, path, body)
        ]
        # Nothing tells an account that is made for us from a person's.
        return plausible(_NAME, Account(user.login, is_own=False, missing=tuple(missing)))

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        pages = numbered_pages(
            self._api, list[Repository], "/user/repos", needs=READS, bounds=ALL_REPOSITORIES
        )
        async for page in pages:
            for repository in page:
                yield plausible(_NAME, repository.seen)

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        path = _identity(repo)
        seen = plausible(_NAME, (await self._api.get_as(Repository, path, needs=READS)).seen)
        self._seen[path] = seen
        return seen

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
        request: PullRequestRequest,
    ) -> PullRequest:
        full_name = await self._full_name(repo)
        path = _path_of(full_name)
        pulls = Pulls(self._api, self._retry_budget, path)
        pull = await pulls.adopted(request) or await pulls.create(request)
        notes: tuple[str, ...] = ()
        if pull.pull_state == "open":
            pull, notes = await pulls.as_draft(pull, request)
            owner = full_name.partition("/")[0]
            wishes = PullExtras(self._api, path, owner, self._account)
            notes = (*notes, *await wishes.fulfil(pull, request))
        url = self._page(full_name, pull.number)
        return plausible(_NAME, PullRequest(pull.number, url, pull.is_draft, notes))

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        seen = await self._as_seen(repo)
        pulls = Pulls(self._api, self._retry_budget, _path_of(seen.full_name))
        found = await pulls.of_branch(branch, seen.default_branch)
        return None if found is None else plausible(_NAME, found.branch_pull)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        full_name = await self._full_name(repo)
        pulls = Pulls(self._api, self._retry_budget, _path_of(full_name))
        found = await pulls.one(number)
        self._comment_counts[full_name, number] = found.comments
        now = found.now(await pulls.head_of(found), self._page(full_name, number))
        return plausible(_NAME, now)

    async def comments(self, repo: RepoAddress, number: int, heard: CommentCursor) -> list[Comment]:
        full_name = await self._full_name(repo)
        path = f"{_path_of(full_name)}/issues/{number}/comments"
        # Gitea has no pages here: all at once, or all since a time.
        since = None
        after = heard.comments
        if after and self._comment_counts.get((full_name, number), 0) > _MOST_READ_AGAIN:
            since = await self._time_before(full_name, after)
        told = await self._api.get_as(list[CommentAnswer], path, needs=READS_ISSUES, since=since)
        newer = NewerComments(_NAME, after)
        page = self._page(full_name, number)
        newer.add(one.at(page) for one in told)
        reviews = Reviews(self._api, f"{_path_of(full_name)}/pulls/{number}", page)
        return [*newer.oldest_first, *await reviews.said(heard)]

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self.comment_on_issue(await self._full_name(repo), number, text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        repository = _path_of(await self._full_name(repo))
        path = f"{repository}/collaborators{path_of(login)}/permission"
        try:
            return (await self._api.get_as(Access, path, needs=_ADMINISTERS)).may_write
        except ForgeError as error:
            if error.fault == "gone":
                return False
            raise

    async def issue(self, full_name: str, number: int) -> Issue:
        path = f"{_path_of(full_name)}/issues/{number}"
        found = await self._api.get_as(IssueAnswer, path, needs=READS_ISSUES)
        return plausible(_NAME, found.issue(full_name, self._url))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        path = f"{_path_of(full_name)}/issues/{number}/comments"
        await self._api.post(path, {"body": cut(text, MOST_BODY)}, needs=WRITES_ISSUES)

    async def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"token {self._token}"}

    async def _as_seen(self, repo: RepoAddress) -> RemoteRepository:
        return self._seen.get(_identity(repo)) or await self.repository(repo)

    async def _full_name(self, repo: RepoAddress) -> str:
        """Now: what is written to an old name goes nowhere, or to whoever has that name now."""
        return (await self._as_seen(repo)).full_name

    async def _time_before(self, full_name: str, comment_id: int) -> str | None:
        """Of which nothing later than the comment is older; None: the comment is gone."""
        path = f"{_path_of(full_name)}/issues/comments/{comment_id}"
        try:
            return (await self._api.get_as(CommentTime, path, needs=READS_ISSUES)).an_hour_earlier
        except ForgeError as error:
            if error.may_pass:
                raise
            return None

    async def _has_scope(self, scope: str, path: str, body: Mapping[str, str]) -> bool:
        """Tried with what cannot be done: Gitea has no way to ask for a token's scopes."""
        try:
            await self._api.post(path, body, needs=scope)
        except ForgeError as error:
            if error.fault == "denied" and "scope" in str(error).partition("permission")[0]:
                return False
            if error.fault not in {"gone", "refused"}:
                raise
        return True

    def _page(self, full_name: str, number: int) -> str:
        """What Gitea itself says depends on what it believes to be called."""
        return f"{self._url}/{full_name}/pulls/{number}"


def _identity(repo: RepoAddress) -> str:
    """Of the API, whatever the repository is called."""
    if repo.external_id:
        return path_of("repositories", repo.external_id)
    return _path_of(repo.full_name)


def _path_of(full_name: str) -> str:
    """Of the API. Raises ForgeError for a name that no repository can have."""
    owner, _, name = full_name.partition("/")
    return path_of("repos", owner, name)
