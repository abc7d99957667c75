"""Gitea and Forgejo, through an access token of an account there.

Refuses to know jobs and tables.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp

from agentjobs.forges.api import Patience, PlatformApi, path_of
from agentjobs.forges.connections import Connection
from agentjobs.forges.gitea_answers import (
    MOST_BODY,
    Access,
    CommentAnswer,
    IssueAnswer,
    Pull,
    Repository,
    User,
    has_draft_mark,
)
from agentjobs.forges.gitea_pulls import READS, WRITES, Pulls, numbered_pages
from agentjobs.forges.gitea_wishes import READS_ISSUES, WRITES_ISSUES, Wishes
from agentjobs.forges.gitway import GitWay
from agentjobs.forges.protocol import (
    Account,
    BranchPull,
    Comment,
    ForgeError,
    Issue,
    PullNow,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
    SeenRepository,
)
from agentjobs.forges.words import cut
from agentjobs.git.remote import Remote, basic

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
        gitway: GitWay,
        patience: Patience,
    ) -> None:
        self._url = connection.url.rstrip("/")
        self._account = connection.account
        self._token = credential
        self._gitway = gitway
        self._patience = patience
        self._seen: dict[str, SeenRepository] = {}
        self._api = PlatformApi(
            session,
            f"{self._url}/api/v1",
            platform="Gitea",
            headers=self._headers,
            patience=patience,
        )

    @contextlib.asynccontextmanager
    async def reach(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
    ) -> AsyncIterator[Remote]:
        full_name = await self._full_name(repo)
        url = f"{self._url}{path_of(*full_name.split('/'))}.git"
        # The token says who it is; Gitea looks at the name only if that is none.
        async with self._gitway.to(url, basic(self._account or "agentjobs", self._token)) as remote:
            yield remote

    async def check(self) -> Account:
        user = self._api.shaped(await self._api.get("/user", needs=_READS_USER), User)
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
        return Account(user.login, is_own=False, missing=tuple(missing))

    async def repositories(self) -> AsyncIterator[SeenRepository]:
        async for page in numbered_pages(self._api, "/user/repos", needs=READS):
            for repository in self._api.shaped(page, list[Repository]):
                yield repository.seen

    async def repository(self, repo: RepoAddress) -> SeenRepository:
        path = _identity(repo)
        answer = await self._api.get(path, needs=READS)
        seen = self._api.shaped(answer, Repository).seen
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
        pulls = Pulls(self._api, self._patience, path)
        pull = await pulls.adopted(request) or await pulls.create(request)
        notes: tuple[str, ...] = ()
        if pull.pull_state == "open":
            pull, notes = await _as_draft(pulls, pull, request)
            owner = full_name.partition("/")[0]
            wishes = Wishes(self._api, path, owner, self._account)
            notes = (*notes, *await wishes.fulfil(pull, request))
        return PullRequest(pull.number, self._page(full_name, pull.number), pull.is_draft, notes)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        seen = await self._as_seen(repo)
        pulls = Pulls(self._api, self._patience, _path_of(seen.full_name))
        found = await pulls.of_branch(branch, seen.default_branch)
        return None if found is None else found.branch_pull

    async def pull(self, repo: RepoAddress, number: int) -> PullNow:
        full_name = await self._full_name(repo)
        pulls = Pulls(self._api, self._patience, _path_of(full_name))
        found = await pulls.one(number)
        return found.now(await pulls.head_of(found), self._page(full_name, number))

    async def comments(self, repo: RepoAddress, number: int, after: int) -> list[Comment]:
        # All at once, whatever is asked for: Gitea has no pages here.
        full_name = await self._full_name(repo)
        path = f"{_path_of(full_name)}/issues/{number}/comments"
        answer = await self._api.get(path, needs=READS_ISSUES)
        found = self._api.shaped(answer or [], list[CommentAnswer])
        return [
            Comment(
                comment.id,
                comment.user.login if comment.user else "",
                comment.body,
                f"{self._page(full_name, number)}#issuecomment-{comment.id}",
            )
            for comment in sorted(found, key=lambda comment: comment.id)
            if comment.id > after
        ]

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self.comment_on_issue(await self._full_name(repo), number, text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        repository = _path_of(await self._full_name(repo))
        path = f"{repository}/collaborators{path_of(login)}/permission"
        try:
            answer = await self._api.get(path, needs=_ADMINISTERS)
        except ForgeError as error:
            if error.fault == "gone":
                return False
            raise
        return self._api.shaped(answer, Access).may_write

    async def issue(self, full_name: str, number: int) -> Issue:
        answer = await self._api.get(f"{_path_of(full_name)}/issues/{number}", needs=READS_ISSUES)
        found = self._api.shaped(answer, IssueAnswer)
        name_now = found.repository.full_name if found.repository else full_name
        return Issue(
            name_now,
            found.number,
            found.title,
            found.body,
            tuple(label.name for label in found.labels or ()),
            f"{self._url}/{name_now}/issues/{number}",
        )

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        path = f"{_path_of(full_name)}/issues/{number}/comments"
        await self._api.post(path, {"body": cut(text, MOST_BODY)}, needs=WRITES_ISSUES)

    async def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"token {self._token}"}

    async def _as_seen(self, repo: RepoAddress) -> SeenRepository:
        return self._seen.get(_identity(repo)) or await self.repository(repo)

    async def _full_name(self, repo: RepoAddress) -> str:
        """Now: what is written to an old name goes nowhere, or to whoever has that name now."""
        return (await self._as_seen(repo)).full_name

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
        """Where people find it: what Gitea says itself depends on what it believes to be called."""
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


async def _as_draft(
    pulls: Pulls, pull: Pull, request: PullRequestRequest
) -> tuple[Pull, tuple[str, ...]]:
    """Again, if the work goes on as one."""
    if not request.draft or pull.is_draft:
        return pull, ()
    if has_draft_mark(pull.title):
        return pull, ("This Gitea does not take “WIP:” for the mark of a draft.",)
    if not request.goes_on:
        return pull, ()
    try:
        return await pulls.make_draft(pull), ()
    except ForgeError as error:
        return pull, (f"The pull request could not be made a draft again: {error}",)
