"""GitLab, on gitlab.com or a host of one's own, through a personal, group or project access token.

Merge requests are pull requests to everybody else. Refuses to know jobs and tables.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import aiohttp

from agentjobs.forges.comments import NewerComments
from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.gitlab.pulls import NEEDS, Opening, user_called
from agentjobs.forges.gitlab.responses import (
    DEVELOPER,
    Access,
    IssueAnswer,
    MergeRequest,
    Note,
    Project,
    Token,
    User,
    harmless,
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

_NAME = "GitLab"
_SCOPE = "scope api"
# Two that were written at once may be listed in the other order; no more than a few ever are.
_KNOWN_BEFORE_THE_END = 20


class GitLab:
    """Seen through one connection."""

    platform = "gitlab"

    def __init__(
        self,
        connection: Connection,
        credential: str,
        session: aiohttp.ClientSession,
        git_transport: GitTransport,
        retry_budget: RetryBudget,
    ) -> None:
        self._url = connection.url.rstrip("/")
        self._token = credential
        self._git_transport = git_transport
        self._retry_budget = retry_budget
        self._api = PlatformApi(
            session,
            f"{self._url}/api/v4",
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
        # By its number: what it was called may be the name of another project by now.
        project = await self._api.get_as(Project, _project(repo), needs=_SCOPE)
        url = f"{self._url}/{quote(project.path_with_namespace)}.git"
        async with self._git_transport.to(
            url, basic_authorization("oauth2", self._token)
        ) as remote:
            yield remote

    async def check(self) -> Account:
        user = await self._api.get_as(User, "/user", needs=_SCOPE)
        return plausible(_NAME, Account(user.username, user.is_own, await self._missing()))

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        # By their identifiers: the only order in which GitLab lists without an end to its pages.
        pages = self._api.pages(
            list[Project],
            "/projects",
            needs=_SCOPE,
            bounds=ALL_REPOSITORIES,
            membership=True,
            min_access_level=DEVELOPER,
            pagination="keyset",
            order_by="id",
            sort="asc",
            per_page=100,
        )
        async for page in pages:
            for project in page:
                # A list does not tell rights that come from a group further up; it was asked for
                # those that may be pushed to.
                yield plausible(_NAME, project.seen(may_push=True))

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        project = await self._api.get_as(Project, _project(repo), needs=_SCOPE)
        told = project.permissions is not None and project.permissions.may_push
        may_push = told or await self._is_member_who_writes(project.id)
        return plausible(_NAME, project.seen(may_push=may_push))

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
        request: PullRequestRequest,
    ) -> PullRequest:
        return await self._opening(repo).open(request)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        found = await self._opening(repo).of_branch(branch)
        return None if found is None else plausible(_NAME, found.branch_pull)

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        path = _merge_request(repo, number)
        found = await self._api.get_as(MergeRequest, path, needs=NEEDS)
        return plausible(_NAME, found.now)

    async def comments(self, repo: RepoAddress, number: int, heard: CommentCursor) -> list[Comment]:
        """The newest first, so that a long conversation is not read from its beginning.

        Notes on lines and those of a review are among them, in one sequence.
        """
        page_url = f"{self._url}/{repo.full_name}/-/merge_requests/{number}"
        newer = NewerComments(_NAME, heard.comments)
        known = 0
        async for page in self._newest_notes(_merge_request(repo, number)):
            newer.add(note.at(page_url) for note in page if not note.system)
            known += sum(newer.knows(note.id) for note in page)
            if known >= _KNOWN_BEFORE_THE_END:
                break
        return newer.oldest_first

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self._write_note(_merge_request(repo, number), text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        user = await user_called(self._api, login)
        return user is not None and await self._may_write(_project(repo), user)

    async def issue(self, full_name: str, number: int) -> Issue:
        found = await self._api.get_as(IssueAnswer, _issue(full_name, number), needs=_SCOPE)
        return plausible(_NAME, found.issue(full_name))

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        await self._write_note(_issue(full_name, number), text)

    def _opening(self, repo: RepoAddress) -> Opening:
        return Opening(self._api, self._retry_budget, _project(repo))

    async def _headers(self) -> Mapping[str, str]:
        return {"PRIVATE-TOKEN": self._token}

    async def _missing(self) -> tuple[str, ...]:
        try:
            answer = await self._api.ask("GET", "/personal_access_tokens/self", needs=_SCOPE)
        except ForgeError as error:
            # Before 15.5 a token could not ask for itself.
            if error.fault in {"gone", "refused"}:
                return ()
            raise
        return () if "api" in shaped(_NAME, answer, Token).scopes else (_SCOPE,)

    async def _is_member_who_writes(self, project_id: int) -> bool:
        """By whichever way: a project does not tell of the groups that it was shared with."""
        own = await self._api.get_as(User, "/user")
        return await self._may_write(f"/projects/{project_id}", own)

    async def _may_write(self, project: str, user: User) -> bool:
        try:
            path = f"{project}/members/all/{user.id}"
            return (await self._api.get_as(Access, path, needs=_SCOPE)).may_write
        except ForgeError as error:
            if error.fault == "gone":
                return False
            raise

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
        written = harmless(text)
        attempt = 0
        while True:
            try:
                await self._api.post(f"{path}/notes", {"body": written}, needs=NEEDS)
                return
            except ApiError as error:
                if error.is_undone or not error.may_pass:
                    raise
                # It may stand there all the same.
                latest: list[Note] = await anext(self._newest_notes(path), [])
                if written.strip() in {note.body.strip() for note in latest}:
                    return
                if not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1


def _project(repo: RepoAddress) -> str:
    return path_of("projects", repo.external_id or repo.full_name)


def _merge_request(repo: RepoAddress, number: int) -> str:
    return f"{_project(repo)}/merge_requests/{number}"


def _issue(full_name: str, number: int) -> str:
    return path_of("projects", full_name, "issues", number)
