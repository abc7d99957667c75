"""Adapter for GitLab (gitlab.com or self-hosted) through a personal, group or project access token.

Merge requests are pull requests everywhere else.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from agentjobs.platforms.adapter import Adapter, GitAccess, register_signing_key
from agentjobs.platforms.adoption import send_once
from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.gitlab.hooks import GitLabHooks
from agentjobs.platforms.gitlab.pulls import NEEDS, MergeRequests, find_user
from agentjobs.platforms.gitlab.responses import (
    DEVELOPER,
    Access,
    IssueResponse,
    MergeRequest,
    Note,
    Project,
    Token,
    User,
    escape_quick_actions,
)
from agentjobs.platforms.http.client import MAX_REPOSITORY_PAGES, ApiError, build_path
from agentjobs.platforms.protocol import (
    MAX_OPEN_PULLS,
    STATUS_NAME,
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    CommitStatus,
    Issue,
    MergeMethod,
    PullRequest,
    PullRequestRequest,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import basic_authorization

_SCOPE = "scope api"
_BAD_REQUEST = 400
_MAX_DESCRIPTION = 255
# A pipeline cannot be neutral, and a pending one would block the merge request.
_STATES = {"pending": "running", "success": "success", "failure": "failed", "neutral": "success"}
# Notes written at the same time may be listed in another order, but only a few.
_KNOWN_BEFORE_STOPPING = 20


class GitLab(Adapter):
    platform = "gitlab"
    title = "GitLab"
    # A rebase changes the source branch first, and a project prescribes whether commits are merged
    # by a merge commit.
    merge_methods: tuple[MergeMethod, ...] = ("merge", "squash")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._api = self.new_api(f"{self.url}/api/v4", self._headers)
        self.hooks = GitLabHooks(lambda _: self._api)

    async def git_access(self, repo: RepoAddress) -> GitAccess:  # noqa: ARG002 - one token for all
        return GitAccess(basic_authorization("oauth2", self.credential))

    async def check(self) -> Account:
        user = await self._api.get_as(User, "/user", needs=_SCOPE)
        missing = await self._missing()
        account = Account(
            user.username,
            user.is_own,
            missing,
            rate_limit=self.traffic.rate_limit,
            identity=user.identity(self.url),
        )
        return self.validate(account)

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        # Keyset pagination by ID is the only one that GitLab does not limit.
        pages = self._api.pages(
            list[Project],
            "/projects",
            needs=_SCOPE,
            max_pages=MAX_REPOSITORY_PAGES,
            membership=True,
            min_access_level=DEVELOPER,
            pagination="keyset",
            order_by="id",
            sort="asc",
            per_page=100,
        )
        async for page in pages:
            for project in page:
                # The list leaves out permissions inherited from a parent group, but it has only
                # projects with at least the role Developer.
                yield self.validate(project.to_remote(may_push=True))

    async def read_repository(self, repo: RepoAddress) -> RemoteRepository:
        project = await self._api.get_as(Project, _project(repo), needs=_SCOPE)
        is_granted = project.permissions is not None and project.permissions.may_push
        may_push = is_granted or await self._may_push_as_member(project.id)
        return self.validate(project.to_remote(may_push=may_push))

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - GitLab uses the connection's credential
        request: PullRequestRequest,
    ) -> PullRequest:
        return await self._merge_requests(repo).open(request)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        merge_request = await self._merge_requests(repo).of_branch(branch)
        return None if merge_request is None else self.validate(merge_request.remote_pull)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        path = _merge_request(repo, number)
        merge_request = await self._api.get_as(MergeRequest, path, needs=NEEDS)
        return self.validate(merge_request.remote_pull)

    async def merge_pull(
        self, repo: RepoAddress, number: int, *, method: MergeMethod, head_commit: str
    ) -> None:
        merge_requests = self._merge_requests(repo)
        await merge_requests.merge(number, squash=method == "squash", head_commit=head_commit)

    async def close_pull(self, repo: RepoAddress, number: int) -> None:
        path, body = _merge_request(repo, number), {"state_event": "close"}
        await self._api.request("PUT", path, body, needs=NEEDS)

    async def open_pulls(self, repo: RepoAddress, base_branch: str) -> list[RemotePull]:
        merge_requests = await self._api.get_as(
            list[MergeRequest],
            f"{_project(repo)}/merge_requests",
            needs=NEEDS,
            state="opened",
            target_branch=base_branch,
            order_by="created_at",
            sort="desc",
            per_page=MAX_OPEN_PULLS,
        )
        return [self.validate(request.remote_pull) for request in merge_requests]

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        """Read from the newest, so that a long conversation is not read from its beginning.

        Notes on lines and in reviews are part of the same sequence.
        """
        page_url = f"{self.url}/{repo.full_name}/-/merge_requests/{number}"
        newer = NewerComments(self.title, cursor.comments)
        known = 0
        async for page in self._newest_notes(_merge_request(repo, number)):
            newer.add(note.comment(page_url) for note in page if not note.system)
            known += sum(newer.is_known(note.id) for note in page)
            if known >= _KNOWN_BEFORE_STOPPING:
                break
        return newer.oldest_first

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self._write_note(_merge_request(repo, number), text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        user = await find_user(self._api, login)
        return user is not None and await self._may_write(_project(repo), user)

    async def find_identity(self, login: str) -> Identity | None:
        user = await find_user(self._api, login)
        return None if user is None else user.identity(self.url)

    async def register_signing_key(self, title: str, public_key: str) -> None:
        body = {"title": title, "key": public_key, "usage_type": "signing"}
        await register_signing_key(self._api, "/user/keys", body, needs=_SCOPE)

    async def set_status(self, repo: RepoAddress, status: CommitStatus) -> None:
        body = {
            "state": _STATES[status.state],
            "name": STATUS_NAME,
            "ref": status.branch,
            "description": status.description[:_MAX_DESCRIPTION],
            "target_url": status.url,
        }
        path = f"{_project(repo)}{build_path('statuses', status.commit)}"
        try:
            await self._api.post(path, body, needs=NEEDS)
        except ApiError as error:
            # GitLab refuses to enter a state again.
            if error.status != _BAD_REQUEST or "Cannot transition status" not in str(error):
                raise

    async def issue(self, full_name: str, number: int) -> Issue:
        response = await self._api.get_as(IssueResponse, _issue(full_name, number), needs=_SCOPE)
        return self.validate(response.issue(full_name))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        await self._write_note(_issue(full_name, number), text)

    def _merge_requests(self, repo: RepoAddress) -> MergeRequests:
        return MergeRequests(self._api, _project(repo))

    async def _headers(self) -> Mapping[str, str]:
        return {"PRIVATE-TOKEN": self.credential}

    async def _missing(self) -> tuple[str, ...]:
        try:
            token = await self._api.get_as(Token, "/personal_access_tokens/self", needs=_SCOPE)
        except ApiError as error:
            # Before 15.5 a token could not read its own scopes.
            if error.fault in {"gone", "refused"}:
                return ()
            raise
        return () if "api" in token.scopes else (_SCOPE,)

    async def _may_push_as_member(self, project_id: int) -> bool:
        """Includes groups that the project is shared with, which the project does not list."""
        user = await self._api.get_as(User, "/user")
        return await self._may_write(f"/projects/{project_id}", user)

    async def _may_write(self, project: str, user: User) -> bool:
        path = f"{project}/members/all/{user.id}"
        access = await self._api.get_or_none(Access, path, needs=_SCOPE)
        return access is not None and access.may_write

    def _newest_notes(self, path: str) -> AsyncIterator[list[Note]]:
        return self._api.pages(
            list[Note],
            f"{path}/notes",
            needs=NEEDS,
            activity_filter="only_comments",
            order_by="created_at",
            sort="desc",
            per_page=100,
        )

    async def _write_note(self, path: str, text: str) -> None:
        body = escape_quick_actions(text)

        async def find() -> Note | None:
            latest: list[Note] = await anext(self._newest_notes(path), [])
            return next((note for note in latest if note.body.strip() == body.strip()), None)

        await send_once(
            self.retry_budget,
            lambda: self._api.post(f"{path}/notes", {"body": body}, needs=NEEDS),
            find,
        )


def _project(repo: RepoAddress) -> str:
    return build_path("projects", repo.external_id or repo.full_name)


def _merge_request(repo: RepoAddress, number: int) -> str:
    return f"{_project(repo)}/merge_requests/{number}"


def _issue(full_name: str, number: int) -> str:
    return build_path("projects", full_name, "issues", number)
