"""Adapter for GitHub (github.com or Enterprise) through one connection: an App or a token."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from agentjobs.platforms.adapter import Adapter, GitAccess, register_signing_key
from agentjobs.platforms.github.access import App, GitHubAccess
from agentjobs.platforms.github.app import (
    EXTRA_PERMISSIONS,
    WORK_PERMISSIONS,
    Scope,
    TokenCache,
    missing_features,
    missing_permissions,
)
from agentjobs.platforms.github.commits import (
    create_signed_commit,
    identity_of_token,
    load_identity,
)
from agentjobs.platforms.github.hooks import GitHubHooks, app_hook_url
from agentjobs.platforms.github.pulls import ISSUES, PULLS, RepositoryPulls
from agentjobs.platforms.github.responses import (
    Branch,
    IssueResponse,
    Pull,
    Repository,
    RepositoryPage,
    Role,
    User,
)
from agentjobs.platforms.github.statuses import StatusWriter
from agentjobs.platforms.http.client import MAX_REPOSITORY_PAGES, PlatformApi, build_path
from agentjobs.platforms.http.responses import decode_as
from agentjobs.platforms.http.urls import repo_path
from agentjobs.platforms.protocol import (
    MAX_OPEN_PULLS,
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    CommitStatus,
    Issue,
    MergeMethod,
    NewCommit,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RateLimit,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import basic_authorization

_METADATA = "Metadata: read-only"
_CONTENTS = "Contents: read and write"
_SIGNING_KEYS = "SSH signing keys: read and write (classic: scope write:ssh_signing_key)"
# Scopes of classic tokens, and what they are needed for.
_CLASSIC_SCOPES = {"repo": "to fetch, push and open pull requests"}
_EXTRA_CLASSIC_SCOPES = {"workflow": "to change .github/workflows after `agentjobs repos lift`"}
_ALL = Scope()


class GitHub(Adapter):
    """`tokens` caches the installation tokens of Apps across connections and requests."""

    platform = "github"
    title = "GitHub"
    merge_methods: tuple[MergeMethod, ...] = ("merge", "squash", "rebase")

    def __init__(self, *arguments: Any, tokens: TokenCache | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        cache = tokens or TokenCache()
        self._access = GitHubAccess(
            self.connection, self.credential, self.retry_budget, cache, self.new_api
        )
        self.hooks = GitHubHooks(self._access)

    async def check(self) -> Account:
        return await (self._check_app() if self._access.is_app else self._check_token())

    async def git_access(self, repo: RepoAddress) -> GitAccess:
        token = await self._access.token(_scope(repo))
        return GitAccess(
            basic_authorization("x-access-token", token), self._access.is_fresh(_scope(repo))
        )

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        if not self._access.is_app:
            async for repository in self._access.api(_ALL).items(
                Repository,
                "/user/repos",
                needs=_METADATA,
                max_pages=MAX_REPOSITORY_PAGES,
                per_page=100,
            ):
                yield self.validate(repository.to_remote())
            return
        # The permissions in GitHub's response describe a person, which an App is not.
        granted = (await self._access.installation(self._access.as_app())).permissions
        may_push = not missing_permissions(granted, {"contents": "write"})
        api = self._access.api(_ALL)
        path = "/installation/repositories"
        async for part in api.pages(
            RepositoryPage, path, needs=_METADATA, max_pages=MAX_REPOSITORY_PAGES, per_page=100
        ):
            for repository in part.repositories:
                yield self.validate(repository.to_remote(may_push=may_push))

    async def read_repository(self, repo: RepoAddress) -> RemoteRepository:
        api = self._access.api(_scope(repo))
        response = await api.get_as(Repository, repo_path(repo.full_name), needs=_METADATA)
        if repo.external_id and str(response.id) != repo.external_id:
            raise PlatformError(
                f"{repo.full_name} on GitHub is no longer the repository that was connected;"
                " connect it again.",
                "gone",
            )
        remote = self.validate(response.to_remote(may_push=True if self._access.is_app else None))
        if not (remote.default_branch and response.may_be_empty):
            return remote
        has_commits = await _has_branch(api, remote.full_name, remote.default_branch)
        return remote if has_commits else msgspec.structs.replace(remote, default_branch="")

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - GitHub uses the connection's credential
        request: PullRequestRequest,
    ) -> PullRequest:
        # Filters and reviewers name the owner, who may have been renamed.
        current = await self.repository(repo)
        return await self._pulls(repo, current.full_name).open(request)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        pull = await self._pulls(repo, repo.full_name).of_branch(branch)
        return None if pull is None else self.validate(pull.remote_pull)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        api = self._access.api(_scope(repo))
        pull = await api.get_as(Pull, f"{repo_path(repo.full_name)}/pulls/{number}", needs=PULLS)
        return self.validate(pull.remote_pull)

    async def merge_pull(
        self, repo: RepoAddress, number: int, *, method: MergeMethod, head_commit: str
    ) -> None:
        await self._pulls(repo, repo.full_name).merge(number, method, head_commit, _CONTENTS)

    async def close_pull(self, repo: RepoAddress, number: int) -> None:
        await self._pulls(repo, repo.full_name).close(number)

    async def open_pulls(self, repo: RepoAddress, base_branch: str) -> list[RemotePull]:
        pulls = await self._access.api(_scope(repo)).get_as(
            list[Pull],
            f"{repo_path(repo.full_name)}/pulls",
            needs=PULLS,
            state="open",
            base=base_branch,
            sort="created",
            direction="desc",
            per_page=MAX_OPEN_PULLS,
        )
        return [self.validate(pull.remote_pull) for pull in pulls]

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        return await self._pulls(repo, repo.full_name).comments(number, cursor)

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self._pulls(repo, repo.full_name).comment(number, text, PULLS)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        api = self._access.api(_scope(repo))
        path = f"{repo_path(repo.full_name)}{build_path('collaborators', login, 'permission')}"
        role = await api.get_or_none(Role, path, needs=_METADATA)
        return role is not None and role.may_write

    async def find_identity(self, login: str) -> Identity | None:
        return await load_identity(self._access.api(_ALL), self.url, login)

    async def create_signed_commit(self, repo: RepoAddress, ref: str, commit: NewCommit) -> None:
        api = self._access.api(_scope(repo))
        await create_signed_commit(api, repo_path(repo.full_name), ref, commit)

    async def register_signing_key(self, title: str, public_key: str) -> None:
        path, body = "/user/ssh_signing_keys", {"title": title, "key": public_key}
        await register_signing_key(self._access.api(_ALL), path, body, needs=_SIGNING_KEYS)

    async def set_status(self, repo: RepoAddress, status: CommitStatus) -> None:
        await StatusWriter(self._access, _scope(repo), repo.full_name).write(status)

    async def issue(self, full_name: str, number: int) -> Issue:
        api = self._access.api(Scope(full_name=full_name))
        path = f"{repo_path(full_name)}/issues/{number}"
        response = await api.get_as(IssueResponse, path, needs=ISSUES)
        return self.validate(response.issue(full_name))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        repo = RepoAddress("", full_name, "")
        await self._pulls(repo, full_name).comment(number, text, ISSUES)

    async def _check_app(self) -> Account:
        api = self._access.as_app()
        app = await api.get_as(App, "/app")
        installation = await self._access.installation(api)
        if installation.suspended_at is not None:
            raise PlatformError(
                "The installation of the GitHub App is suspended; unsuspend it on GitHub.",
                "unauthorized",
            )
        extra = dict(EXTRA_PERMISSIONS)
        if installation.target_type != "Organization":
            # People have no teams.
            del extra["members"]
        if await app_hook_url(api):
            # The App's own webhook serves all repositories.
            del extra["repository_hooks"]
        # Either of the two is enough.
        del extra["statuses"]
        if not missing_permissions(installation.permissions, {"statuses": "write"}):
            del extra["checks"]
        account = Account(
            f"{app.slug}[bot]",
            is_own=True,
            missing=missing_features(installation.permissions, WORK_PERMISSIONS),
            missing_extras=missing_features(installation.permissions, extra),
            rate_limit=await self._installation_limit(),
            identity=await self.find_identity(f"{app.slug}[bot]"),
        )
        return self.validate(account)

    async def _installation_limit(self) -> RateLimit | None:
        """The limit of the installation: the App itself has another one."""
        with contextlib.suppress(PlatformError):
            # This request does not count.
            await self._access.api(_ALL).request("GET", "/rate_limit")
        return self.traffic.rate_limit

    async def _check_token(self) -> Account:
        api = self._access.api(_ALL)
        response = await api.request("GET", "/user")
        user = decode_as(self.title, response, User)
        # Only classic tokens have scopes.
        header = response.headers.get("X-OAuth-Scopes")
        scopes = None if header is None else {scope.strip() for scope in header.split(",")}
        account = Account(
            user.login,
            is_own=False,
            missing=_missing_scopes(scopes, _CLASSIC_SCOPES),
            missing_extras=_missing_scopes(scopes, _EXTRA_CLASSIC_SCOPES),
            rate_limit=self.traffic.rate_limit,
            identity=await identity_of_token(api, self.url, user),
        )
        return self.validate(account)

    def _pulls(self, repo: RepoAddress, full_name: str) -> RepositoryPulls:
        return RepositoryPulls(self._access.api(_scope(repo)), full_name)


def _scope(repo: RepoAddress) -> Scope:
    return Scope(repo.external_id, repo.full_name)


def _missing_scopes(scopes: set[str] | None, required: Mapping[str, str]) -> tuple[str, ...]:
    """None means that the token has no scopes, but permissions that it does not show."""
    if scopes is None:
        return ()
    return tuple(f"{scope} ({why})" for scope, why in required.items() if scope not in scopes)


async def _has_branch(api: PlatformApi, full_name: str, branch: str) -> bool:
    path = f"{repo_path(full_name)}{build_path('branches', branch)}"
    return await api.get_or_none(Branch, path, needs=_CONTENTS) is not None
