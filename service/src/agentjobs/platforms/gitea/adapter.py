"""Adapter for Gitea and Forgejo through an access token."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from http import HTTPStatus
from typing import Any

from agentjobs.platforms.adapter import Adapter, GitAccess, commit_status, register_signing_key
from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.gitea.accounts import (
    READ_ORGANIZATION,
    TeamAccess,
    identity_of_token,
)
from agentjobs.platforms.gitea.extras import READ_ISSUES, WRITE_ISSUES, PullExtras
from agentjobs.platforms.gitea.hooks import GiteaHooks
from agentjobs.platforms.gitea.pulls import PAGE, READ_REPOSITORY, WRITE_REPOSITORY, Pulls
from agentjobs.platforms.gitea.responses import (
    MAX_BODY_BYTES,
    Access,
    CommentResponse,
    CommentTime,
    IssueResponse,
    Pull,
    Repository,
    User,
)
from agentjobs.platforms.gitea.reviews import Reviews
from agentjobs.platforms.http.client import MAX_REPOSITORY_PAGES, ApiError, build_path
from agentjobs.platforms.http.urls import repo_path
from agentjobs.platforms.protocol import (
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    CommitStatus,
    Issue,
    MergeMethod,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.platforms.text import truncate
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import basic_authorization

# A shorter conversation is read completely: that is cheaper than a request for the start time.
_MAX_READ_AGAIN = 50
_READ_USER = "read:user"
_WRITE_USER = "write:user"
_ADMIN = "admin of the repository, which is required to read who has write access"
# No repository or organization can have this name, and Gitea checks the token's scopes before it.
_NO_NAME = "-"
_ORGANIZATION_FEATURES = (
    f"{READ_ORGANIZATION} (for follow-ups by members of teams, and labels of organizations)"
)


class Gitea(Adapter):
    platform = "gitea"
    title = "Gitea"
    merge_methods: tuple[MergeMethod, ...] = ("merge", "squash", "rebase")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._account = self.connection.account
        self._comment_counts: dict[tuple[str, int], int] = {}
        # Some of Gitea's lists have no links to their next pages.
        self._api = self.new_api(f"{self.url}/api/v1", self._headers, numbers_pages=True)
        self.hooks = GiteaHooks(lambda _: self._api)

    async def git_access(self, repo: RepoAddress) -> GitAccess:  # noqa: ARG002 - one token for all
        # The token identifies the account; Gitea ignores the user name.
        return GitAccess(basic_authorization(self._account or "agentjobs", self.credential))

    async def check(self) -> Account:
        user = await self._api.get_as(User, "/user", needs=_READ_USER)
        missing_repo = build_path("repos", user.login, _NO_NAME)
        probes = {
            WRITE_REPOSITORY: (f"{missing_repo}/pulls", {}),
            WRITE_ISSUES: (f"{missing_repo}/labels", {"name": "none", "color": "#ededed"}),
        }
        missing = [
            scope
            for scope, (path, body) in probes.items()
            # A request that must fail: Gitea cannot return a token's scopes.
            if not await _is_in_scope(self._api.post(path, body, needs=scope))
        ]
        extras = () if await self._reads_organizations() else (_ORGANIZATION_FEATURES,)
        account = Account(
            user.login,
            # Gitea does not distinguish bot accounts from people.
            is_own=False,
            missing=tuple(missing),
            missing_extras=extras,
            identity=await identity_of_token(self._api, self.url, user),
        )
        return self.validate(account)

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        async for repository in self._api.items(
            Repository,
            "/user/repos",
            needs=READ_REPOSITORY,
            max_pages=MAX_REPOSITORY_PAGES,
            limit=PAGE,
        ):
            yield self.validate(repository.remote)

    async def read_repository(self, repo: RepoAddress) -> RemoteRepository:
        response = await self._api.get_as(Repository, _stable_path(repo), needs=READ_REPOSITORY)
        return self.validate(response.remote)

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - Gitea uses the connection's credential
        request: PullRequestRequest,
    ) -> PullRequest:
        full_name = await self._full_name(repo)
        path, pulls = repo_path(full_name), self._pulls(full_name)
        pull = await pulls.find_adoptable(request) or await pulls.create(request)
        notes: tuple[str, ...] = ()
        if pull.pull_state == "open":
            pull, notes = await pulls.as_draft(pull, request)
            owner = full_name.partition("/")[0]
            extras = PullExtras(self._api, path, owner, self._account)
            notes = (*notes, *await extras.apply(pull, request))
        url = self._page(full_name, pull.number)
        return self.validate(PullRequest(pull.number, url, pull.is_draft, notes))

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        remote = await self.current(repo)
        pull = await self._pulls(remote.full_name).of_branch(branch, remote.default_branch)
        return None if pull is None else self._remote_pull(remote.full_name, pull)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        full_name = await self._full_name(repo)
        pull = await self._pulls(full_name).get(number)
        self._comment_counts[full_name, number] = pull.comments
        return self._remote_pull(full_name, pull)

    async def merge_pull(
        self, repo: RepoAddress, number: int, *, method: MergeMethod, head_commit: str
    ) -> None:
        await self._pulls(await self._full_name(repo)).merge(number, method, head_commit)

    async def close_pull(self, repo: RepoAddress, number: int) -> None:
        path = f"{repo_path(await self._full_name(repo))}/pulls/{number}"
        await self._api.request("PATCH", path, {"state": "closed"}, needs=WRITE_REPOSITORY)

    async def open_pulls(self, repo: RepoAddress, base_branch: str) -> list[RemotePull]:
        full_name = await self._full_name(repo)
        pulls = await self._pulls(full_name).newest_open(base_branch)
        return [self._remote_pull(full_name, pull) for pull in pulls]

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        full_name = await self._full_name(repo)
        path = f"{repo_path(full_name)}/issues/{number}/comments"
        # Gitea does not paginate comments: it returns all, or all since a time.
        since = None
        after = cursor.comments
        if after and self._comment_counts.get((full_name, number), 0) > _MAX_READ_AGAIN:
            since = await self._time_before(full_name, after)
        comments = await self._api.get_as(
            list[CommentResponse], path, needs=READ_ISSUES, since=since
        )
        newer = NewerComments(self.title, after)
        page = self._page(full_name, number)
        newer.add(comment.comment(page) for comment in comments)
        reviews = Reviews(self._api, f"{repo_path(full_name)}/pulls/{number}", page)
        return [*newer.oldest_first, *await reviews.newer_comments(cursor)]

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self.comment_on_issue(await self._full_name(repo), number, text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        repository = repo_path(await self._full_name(repo))
        path = f"{repository}/collaborators{build_path(login)}/permission"
        access = await self._api.get_or_none(Access, path, needs=_ADMIN)
        if access is None:
            return False
        return access.may_write or await TeamAccess(self._api, repository).may_write(login)

    async def find_identity(self, login: str) -> Identity | None:
        user = await self._api.get_unless_refused(User, "users", login)
        return None if user is None else user.identity

    async def register_signing_key(self, title: str, public_key: str) -> None:
        # Gitea has no keys for signatures alone.
        body = {"title": title, "key": public_key, "read_only": True}
        await register_signing_key(self._api, "/user/keys", body, needs=_WRITE_USER)

    async def set_status(self, repo: RepoAddress, status: CommitStatus) -> None:
        path = f"{repo_path(await self._full_name(repo))}{build_path('statuses', status.commit)}"
        try:
            await self._api.post(path, commit_status(status), needs=WRITE_REPOSITORY)
        except ApiError as error:
            if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            message = f"Gitea does not accept a status of {status.commit}; it may not know it."
            raise PlatformError(message) from None

    async def issue(self, full_name: str, number: int) -> Issue:
        path = f"{repo_path(full_name)}/issues/{number}"
        response = await self._api.get_as(IssueResponse, path, needs=READ_ISSUES)
        return self.validate(response.issue(full_name, self.url))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        path = f"{repo_path(full_name)}/issues/{number}/comments"
        await self._api.post(path, {"body": truncate(text, MAX_BODY_BYTES)}, needs=WRITE_ISSUES)

    async def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"token {self.credential}"}

    def _pulls(self, full_name: str) -> Pulls:
        return Pulls(self._api, repo_path(full_name))

    async def _full_name(self, repo: RepoAddress) -> str:
        """The current name: an old one may lead nowhere, or to another repository."""
        return (await self.current(repo)).full_name

    async def _time_before(self, full_name: str, comment_id: int) -> str | None:
        """A time before all comments after this one; None if the comment was deleted."""
        owner, _, name = full_name.partition("/")
        time = await self._api.get_unless_refused(
            CommentTime, "repos", owner, name, "issues", "comments", comment_id, needs=READ_ISSUES
        )
        return None if time is None else time.one_hour_earlier

    async def _reads_organizations(self) -> bool:
        path = f"{build_path('orgs', _NO_NAME)}/labels"
        return await _is_in_scope(self._api.request("GET", path, needs=READ_ORGANIZATION))

    def _remote_pull(self, full_name: str, pull: Pull) -> RemotePull:
        return self.validate(pull.remote_pull(self._page(full_name, pull.number)))

    def _page(self, full_name: str, number: int) -> str:
        """Gitea's own URLs depend on its configured root URL, which may be wrong."""
        return f"{self.url}/{full_name}/pulls/{number}"


async def _is_in_scope(request: Awaitable[object]) -> bool:
    """False if the request fails because the token lacks a scope."""
    try:
        await request
    except PlatformError as error:
        if error.fault == "denied" and "scope" in str(error).partition("permission")[0]:
            return False
        if error.fault not in {"gone", "refused"}:
            raise
    return True


def _stable_path(repo: RepoAddress) -> str:
    """An API path that survives a rename."""
    if repo.external_id:
        return build_path("repositories", repo.external_id)
    return repo_path(repo.full_name)
