"""GitLab, on gitlab.com or a host of one's own, through a personal, group or project access token.

Merge requests are pull requests to everybody else. Refuses to know jobs and tables.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

import aiohttp

from agentjobs.forges.api import ApiError, Patience, PlatformApi, path_of
from agentjobs.forges.connections import Connection
from agentjobs.forges.gitlab_answers import (
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
from agentjobs.forges.gitlab_opening import NEEDS, Opening, user_called
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
from agentjobs.git.remote import Remote, basic

_SCOPE = "scope api"
# Two that were written at once may be listed in the other order; no more than a few ever are.
_KNOWN_BEFORE_THE_END = 20
_NEWEST_COMMENTS: Mapping[str, str | int] = {
    "activity_filter": "only_comments",
    "order_by": "created_at",
    "sort": "desc",
    "per_page": 100,
}


class GitLab:
    """Seen through one connection."""

    platform = "gitlab"

    def __init__(
        self,
        connection: Connection,
        credential: str,
        session: aiohttp.ClientSession,
        gitway: GitWay,
        patience: Patience,
    ) -> None:
        self._url = connection.url.rstrip("/")
        self._token = credential
        self._gitway = gitway
        self._patience = patience
        self._api = PlatformApi(
            session,
            f"{self._url}/api/v4",
            platform="GitLab",
            headers=self._headers,
            patience=patience,
        )

    def reach(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
    ) -> AbstractAsyncContextManager[Remote]:
        url = f"{self._url}/{quote(repo.full_name)}.git"
        return self._gitway.to(url, basic("oauth2", self._token))

    async def check(self) -> Account:
        user = self._api.shaped(await self._api.get("/user", needs=_SCOPE), User)
        return Account(user.username, user.is_own, await self._missing())

    async def repositories(self) -> AsyncIterator[SeenRepository]:
        # By their identifiers: the only order in which GitLab lists without an end to its pages.
        pages = self._api.pages(
            "/projects",
            needs=_SCOPE,
            membership=True,
            min_access_level=DEVELOPER,
            pagination="keyset",
            order_by="id",
            sort="asc",
            per_page=100,
        )
        async for page in pages:
            for project in self._api.shaped(page, list[Project]):
                # A list does not tell rights that come from a group further up; it was asked for
                # those that may be pushed to.
                yield project.seen(may_push=True)

    async def repository(self, repo: RepoAddress) -> SeenRepository:
        project = self._api.shaped(await self._api.get(_project(repo), needs=_SCOPE), Project)
        told = project.permissions is not None and project.permissions.may_push
        return project.seen(may_push=told or await self._is_member_who_writes(project.id))

    async def open_pull_request(
        self,
        repo: RepoAddress,
        credential: str,  # noqa: ARG002 - ours is the connection's
        request: PullRequestRequest,
    ) -> PullRequest:
        return await self._opening(repo).open(request)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        found = await self._opening(repo).of_branch(branch)
        return None if found is None else found.branch_pull

    async def pull(self, repo: RepoAddress, number: int) -> PullNow:
        answer = await self._api.get(_merge_request(repo, number), needs=NEEDS)
        return self._api.shaped(answer, MergeRequest).now

    async def comments(self, repo: RepoAddress, number: int, after: int) -> list[Comment]:
        page_url = f"{self._url}/{repo.full_name}/-/merge_requests/{number}"
        found = [
            Comment(note.id, note.author.username, note.body, f"{page_url}#note_{note.id}")
            for note in await self._notes_after(_merge_request(repo, number), after)
            if not note.system
        ]
        return sorted(found, key=lambda comment: comment.id)

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        await self._write_note(_merge_request(repo, number), text)

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        user = await user_called(self._api, login)
        return user is not None and await self._may_write(_project(repo), user)

    async def issue(self, full_name: str, number: int) -> Issue:
        answer = await self._api.get(_issue(full_name, number), needs=_SCOPE)
        found = self._api.shaped(answer, IssueAnswer)
        return Issue(
            full_name,
            found.iid,
            found.title,
            found.description or "",
            tuple(found.labels),
            found.web_url,
        )

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        await self._write_note(_issue(full_name, number), text)

    def _opening(self, repo: RepoAddress) -> Opening:
        return Opening(self._api, self._patience, _project(repo))

    async def _headers(self) -> Mapping[str, str]:
        return {"PRIVATE-TOKEN": self._token}

    async def _missing(self) -> tuple[str, ...]:
        try:
            answer = await self._api.get("/personal_access_tokens/self", needs=_SCOPE)
        except ForgeError as error:
            # Before 15.5 a token could not ask for itself.
            if error.fault in {"gone", "refused"}:
                return ()
            raise
        return () if "api" in self._api.shaped(answer, Token).scopes else (_SCOPE,)

    async def _is_member_who_writes(self, project_id: int) -> bool:
        """By whichever way: a project does not tell of the groups that it was shared with."""
        own = self._api.shaped(await self._api.get("/user"), User)
        return await self._may_write(f"/projects/{project_id}", own)

    async def _may_write(self, project: str, user: User) -> bool:
        try:
            answer = await self._api.get(f"{project}/members/all/{user.id}", needs=_SCOPE)
        except ForgeError as error:
            if error.fault == "gone":
                return False
            raise
        return self._api.shaped(answer, Access).may_write

    async def _notes_after(self, path: str, after: int) -> list[Note]:
        """The newest first, so that a long conversation is not read from its beginning."""
        found: list[Note] = []
        known = 0
        async for page in self._api.pages(f"{path}/notes", needs=NEEDS, **_NEWEST_COMMENTS):
            notes = self._api.shaped(page, list[Note])
            found += [note for note in notes if note.id > after]
            known += sum(note.id <= after for note in notes)
            if known >= _KNOWN_BEFORE_THE_END:
                break
        return found

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
                latest = await self._api.get(f"{path}/notes", needs=NEEDS, **_NEWEST_COMMENTS)
                if written.strip() in {
                    note.body.strip() for note in self._api.shaped(latest, list[Note])
                }:
                    return
                if not await self._patience.outlasts(error, attempt):
                    raise
            attempt += 1


def _project(repo: RepoAddress) -> str:
    return path_of("projects", repo.external_id or repo.full_name)


def _merge_request(repo: RepoAddress, number: int) -> str:
    return f"{_project(repo)}/merge_requests/{number}"


def _issue(full_name: str, number: int) -> str:
    return path_of("projects", full_name, "issues", number)
