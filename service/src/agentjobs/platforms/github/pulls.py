"""Pull requests of one repository on GitHub: opening them once, labels, reviewers, comments."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from agentjobs.platforms.adoption import find_adoptable, send_once
from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.github.responses import IssueComment, Pull, newest_of_branch
from agentjobs.platforms.github.reviews import PullReviews
from agentjobs.platforms.http.client import ApiError, PlatformApi, build_path
from agentjobs.platforms.protocol import (
    Comment,
    CommentCursor,
    MergeMethod,
    PlatformError,
    PullRequest,
    PullRequestRequest,
)
from agentjobs.platforms.text import one_line, pull_title, truncate
from agentjobs.platforms.validate import validate

MAX_BODY_CHARACTERS = 65_536
PULLS = "Pull requests: read and write"
ISSUES = "Issues: read and write"
# Comments of the maximum length still fit into the largest response that is read.
_COMMENTS_ON_A_PAGE = 30
# GitHub allows 2,500.
_MAX_PAGES = 100
_MAX_CHECKED_COMMENTS = 30
_UNPROCESSABLE = 422
# GitHub's API may not know a branch yet that git has just pushed.
_NEW_BRANCH_WAITS = (1.0, 2.0, 4.0, 8.0)
_NOT_A_DRAFT = "GitHub opened it as ready for review: this repository does not support drafts."
_NO_DRAFT_AGAIN = "GitHub's REST API cannot convert it back to a draft; do that on its page."


class Reviewers(NamedTuple):
    people: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RepositoryPulls:
    """GitHub redirects requests about a former `full_name`, but not filters by its owner."""

    def __init__(self, api: PlatformApi, full_name: str) -> None:
        self._api = api
        self.full_name = full_name
        self._owner, _, name = full_name.partition("/")
        self.path = build_path("repos", self._owner, name)

    async def of_branch(self, branch: str) -> Pull | None:
        head, path = f"{self._owner}:{branch}", f"{self.path}/pulls"
        pulls = self._api.items(Pull, path, needs=PULLS, head=head, state="all", per_page=100)
        return newest_of_branch([pull async for pull in pulls], branch)

    async def open(self, request: PullRequestRequest) -> PullRequest:
        pull = find_adoptable(await self.of_branch(request.head_branch), request)
        notes: list[str] = []
        if pull is None:
            pull = await self._create_or_adopt(request, notes)
        elif (
            request.is_follow_up and request.draft and not pull.draft and pull.pull_state == "open"
        ):
            notes.append(_NO_DRAFT_AGAIN)
        if pull.pull_state == "open":
            notes += await self._label(pull, request.labels)
            notes += await self._request_review(pull, request.reviewers)
        opened = PullRequest(pull.number, pull.html_url, pull.draft, tuple(notes))
        return validate("GitHub", opened)

    async def merge(self, number: int, method: MergeMethod, head_commit: str, needs: str) -> None:
        body = {"merge_method": method, "sha": head_commit}
        await self._api.request("PUT", f"{self.path}/pulls/{number}/merge", body, needs=needs)

    async def close(self, number: int) -> None:
        path = f"{self.path}/pulls/{number}"
        await self._api.request("PATCH", path, {"state": "closed"}, needs=PULLS)

    async def comments(self, number: int, cursor: CommentCursor) -> list[Comment]:
        """Read from the end, so that a long conversation is not read from its beginning."""
        newer = NewerComments("GitHub", cursor.comments)
        async for page in self._latest(number):
            newer.add(comment.comment for comment in page)
            # They are listed by ascending ID.
            if any(newer.is_known(comment.id) for comment in page):
                break
        reviews = PullReviews(self._api, f"{self.path}/pulls/{number}", PULLS)
        return [*newer.oldest_first, *await reviews.newer_comments(cursor)]

    async def comment(self, number: int, text: str, needs: str) -> None:
        body, path = truncate(text, MAX_BODY_CHARACTERS), f"{self._issue(number)}/comments"
        await send_once(
            self._api.retry_budget,
            lambda: self._api.post(path, {"body": body}, needs=needs),
            lambda: self._find_recent_comment(number, body),
        )

    async def _find_recent_comment(self, number: int, text: str) -> IssueComment | None:
        checked = 0
        async for page in self._latest(number):
            for comment in page:
                if comment.body == text:
                    return comment
            checked += len(page)
            if checked >= _MAX_CHECKED_COMMENTS:
                break
        return None

    def _latest(self, number: int) -> AsyncIterator[list[IssueComment]]:
        path = f"{self._issue(number)}/comments"
        return self._api.pages_backwards(
            list[IssueComment],
            path,
            needs=PULLS,
            max_pages=_MAX_PAGES,
            per_page=_COMMENTS_ON_A_PAGE,
        )

    async def _create_or_adopt(self, request: PullRequestRequest, notes: list[str]) -> Pull:
        draft = request.draft
        new_branch_waits = iter(_NEW_BRANCH_WAITS)

        async def find() -> Pull | None:
            return find_adoptable(await self.of_branch(request.head_branch), request)

        async def change_request(error: ApiError) -> bool:
            nonlocal draft
            if draft and "draft" in str(error).lower():
                draft = False
                notes.append(_NOT_A_DRAFT)
                return True
            if "head" not in error.invalid_fields:
                return False
            seconds = next(new_branch_waits, None)
            if seconds is None:
                raise error
            await self._api.retry_budget.pause("GitHub does not know the branch yet", seconds)
            return True

        return await send_once(
            self._api.retry_budget,
            lambda: self._create(request, draft),
            find,
            may_exist=lambda error: error.is_temporary or error.status == _UNPROCESSABLE,
            change_request=change_request,
        )

    async def _create(self, request: PullRequestRequest, draft: bool) -> Pull:
        body = {
            "title": pull_title(request),
            "body": truncate(request.body, MAX_BODY_CHARACTERS),
            "head": request.head_branch,
            "base": request.base_branch,
            "draft": draft,
        }
        return await self._api.send_as(Pull, "POST", f"{self.path}/pulls", body, needs=PULLS)

    async def _label(self, pull: Pull, labels: Iterable[str]) -> list[str]:
        label_names = list(dict.fromkeys(filter(None, map(one_line, labels))))
        path = f"{self._issue(pull.number)}/labels"
        rejected = await self._post_each(path, "labels", label_names)
        return [f"The label {name!r} could not be set: {reason}" for name, reason in rejected]

    async def _request_review(self, pull: Pull, names: Iterable[str]) -> list[str]:
        author = pull.user.login if pull.user else ""
        reviewers = split_reviewers(names, owner=self._owner, author=author)
        path = f"{self.path}/pulls/{pull.number}/requested_reviewers"
        rejected = [
            *await self._post_each(path, "reviewers", reviewers.people),
            *await self._post_each(path, "team_reviewers", reviewers.teams),
        ]
        failed = (
            f"{name!r} could not be requested as a reviewer: {reason}{_hint(reason)}"
            for name, reason in rejected
        )
        return [*reviewers.notes, *failed]

    async def _post_each(
        self, path: str, field: str, names: Iterable[str]
    ) -> list[tuple[str, PlatformError]]:
        """The refused names. GitHub refuses all names of a request if it refuses one."""
        rejected = []
        for name in names:
            try:
                await self._api.post(path, {field: [name]}, needs=PULLS)
            except PlatformError as error:
                rejected.append((name, error))
        return rejected

    def _issue(self, number: int) -> str:
        return f"{self.path}/issues/{number}"


def _hint(reason: PlatformError) -> str:
    """GitHub does not say that the App may not see teams."""
    is_invisible = "Could not resolve to a node" in str(reason)
    return " Grant the App the permission “Organization members: read-only”." * is_invisible


def split_reviewers(names: Iterable[str], *, owner: str, author: str) -> Reviewers:
    """GitHub accepts people, and teams of the organization that owns the repository."""
    people: dict[str, str] = {}
    teams: dict[str, str] = {}
    notes = []
    for name in (one_line(name).removeprefix("@") for name in names):
        organization, slash, team = name.partition("/")
        if not slash and "@" in name:
            notes.append(f"GitHub does not accept an email address as a reviewer: {name!r}.")
        elif not slash and name and name.casefold() != author.casefold():
            people[name.casefold()] = name
        elif slash and organization.casefold() == owner.casefold():
            teams[team.casefold()] = team
        elif slash:
            notes.append(f"{name!r} is not a team of {owner} and was not requested as a reviewer.")
    return Reviewers(tuple(people.values()), tuple(teams.values()), tuple(notes))
