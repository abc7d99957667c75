"""Pull requests of one repository on GitHub: opening one, once, and what is asked for beside it."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from agentjobs.forges.adoption import Existing, is_wanted
from agentjobs.forges.comments import NewerComments
from agentjobs.forges.github.responses import IssueComment, Pull, newest_of_branch
from agentjobs.forges.github.reviews import PullReviews
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget, path_of
from agentjobs.forges.http.pagination import Bounds
from agentjobs.forges.protocol import (
    Comment,
    CommentCursor,
    ForgeError,
    PullRequest,
    PullRequestRequest,
)
from agentjobs.forges.text import body_of, cut, shown, title_of
from agentjobs.forges.validate import plausible

MOST_BODY_CHARACTERS = 65_536
PULLS = "Pull requests: read and write"
ISSUES = "Issues: read and write"
# Each as long as GitHub takes one, they are still an answer of the size that is read.
_COMMENTS_ON_A_PAGE = 30
# GitHub takes 2,500.
_ALL_COMMENTS = Bounds(pages=100)
_MOST_WRITTEN_MEANWHILE = 30
_UNPROCESSABLE = 422
_NOT_A_DRAFT = "GitHub opened it as ready for review: this repository has no drafts."
_NO_DRAFT_AGAIN = "GitHub lets nobody make it a draft again this way; do it on its page."


class Reviewers(NamedTuple):
    people: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RepositoryPulls:
    """`full_name` as it is now: writing is not redirected, and fails as `has_moved`."""

    def __init__(self, api: PlatformApi, retry_budget: RetryBudget, full_name: str) -> None:
        self._api = api
        self._retry_budget = retry_budget
        self._owner, _, name = full_name.partition("/")
        self.path = path_of("repos", self._owner, name)

    async def of_branch(self, branch: str) -> Pull | None:
        found: list[Pull] = []
        pages = self._api.pages(
            list[Pull],
            f"{self.path}/pulls",
            needs=PULLS,
            head=f"{self._owner}:{branch}",
            state="all",
            per_page=100,
        )
        async for page in pages:
            found += [pull for pull in page if pull.head.ref == branch]
        return newest_of_branch(found, branch)

    async def open(self, request: PullRequestRequest) -> PullRequest:
        pull = adopted(await self.of_branch(request.head_branch), request)
        notes: list[str] = []
        if pull is None:
            pull = await self._make(request, notes)
        elif request.goes_on and request.draft and not pull.draft and pull.pull_state == "open":
            notes.append(_NO_DRAFT_AGAIN)
        if pull.pull_state == "open":
            notes += await self._label(pull, request.labels)
            notes += await self._ask_for_review(pull, request.reviewers)
        opened = PullRequest(pull.number, pull.html_url, pull.draft, tuple(notes))
        return plausible("GitHub", opened)

    async def comments(self, number: int, heard: CommentCursor) -> list[Comment]:
        """From the end, so that a long conversation is not read from its beginning."""
        newer = NewerComments("GitHub", heard.comments)
        async for page in self._latest(number):
            newer.add(one.comment for one in page)
            # They are listed by ascending numbers.
            if any(newer.knows(one.id) for one in page):
                break
        reviews = PullReviews(self._api, f"{self.path}/pulls/{number}", PULLS)
        return [*newer.oldest_first, *await reviews.said(heard)]

    async def comment(self, number: int, text: str, needs: str) -> None:
        written = cut(text, MOST_BODY_CHARACTERS)
        attempt = 0
        while True:
            try:
                await self._api.post(
                    f"{self._issue(number)}/comments", {"body": written}, needs=needs
                )
                return
            except ApiError as error:
                if not error.may_pass or error.is_undone:
                    raise
                # It may stand there all the same.
                if await self._has_lately(number, written):
                    return
                if not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    async def _has_lately(self, number: int, text: str) -> bool:
        seen = 0
        async for page in self._latest(number):
            if any(one.body == text for one in page):
                return True
            seen += len(page)
            if seen >= _MOST_WRITTEN_MEANWHILE:
                break
        return False

    def _latest(self, number: int) -> AsyncIterator[list[IssueComment]]:
        path = f"{self._issue(number)}/comments"
        return self._api.pages_from_the_end(
            list[IssueComment],
            path,
            needs=PULLS,
            bounds=_ALL_COMMENTS,
            per_page=_COMMENTS_ON_A_PAGE,
        )

    async def _make(self, request: PullRequestRequest, notes: list[str]) -> Pull:
        attempt = 0
        draft = request.draft
        while True:
            try:
                return await self._create(request, draft)
            except ApiError as error:
                if not error.may_pass and error.status != _UNPROCESSABLE:
                    raise
                # It may be there all the same, made by us or by whom we race.
                existing = adopted(await self.of_branch(request.head_branch), request)
                if existing is not None:
                    return existing
                if draft and "draft" in str(error).lower():
                    draft = False
                    notes.append(_NOT_A_DRAFT)
                elif not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    async def _create(self, request: PullRequestRequest, draft: bool) -> Pull:
        body = {
            "title": title_of(request),
            "body": body_of(request, MOST_BODY_CHARACTERS),
            "head": request.head_branch,
            "base": request.base_branch,
            "draft": draft,
        }
        return await self._api.send_as(Pull, "POST", f"{self.path}/pulls", body, needs=PULLS)

    async def _label(self, pull: Pull, labels: Iterable[str]) -> list[str]:
        wanted = list(dict.fromkeys(filter(None, map(shown, labels))))
        refused = await self._all_or_each(f"{self._issue(pull.number)}/labels", "labels", wanted)
        return [f"The label {name!r} could not be set: {reason}" for name, reason in refused]

    async def _ask_for_review(self, pull: Pull, given: Iterable[str]) -> list[str]:
        author = pull.user.login if pull.user else ""
        reviewers = reviewers_of(given, owner=self._owner, author=author)
        path = f"{self.path}/pulls/{pull.number}/requested_reviewers"
        refused = [
            *await self._all_or_each(path, "reviewers", list(reviewers.people)),
            *await self._all_or_each(path, "team_reviewers", list(reviewers.teams)),
        ]
        failed = (f"{name!r} was not asked for a review: {reason}" for name, reason in refused)
        return [*reviewers.notes, *failed]

    async def _all_or_each(
        self, path: str, field: str, names: list[str]
    ) -> list[tuple[str, ForgeError]]:
        """Those that were refused: for one that is, GitHub takes none of them."""
        if not names:
            return []
        try:
            await self._api.post(path, {field: names}, needs=PULLS)
            return []
        except ForgeError as error:
            if isinstance(error, ApiError) and error.has_moved:
                raise
            if len(names) == 1 or error.fault not in {"refused", "gone"}:
                return [(name, error) for name in names]
        refused = []
        for name in names:
            refused += await self._all_or_each(path, field, [name])
        return refused

    def _issue(self, number: int) -> str:
        return f"{self.path}/issues/{number}"


def adopted(existing: Pull | None, request: PullRequestRequest) -> Pull | None:
    """None: one is to be opened. Raises ForgeError where none may be."""
    known = None
    if existing is not None:
        known = Existing(existing.number, existing.pull_state, existing.head.sha)
    return existing if is_wanted(known, request) else None


def reviewers_of(given: Iterable[str], *, owner: str, author: str) -> Reviewers:
    """GitHub asks people, and teams of the organization that owns the repository."""
    people: dict[str, str] = {}
    teams: dict[str, str] = {}
    notes = []
    for name in (shown(one).removeprefix("@") for one in given):
        organization, slash, team = name.partition("/")
        if not slash and "@" in name:
            notes.append(f"GitHub asks nobody for a review by an e-mail address: {name!r}.")
        elif not slash and name and name.casefold() != author.casefold():
            people[name.casefold()] = name
        elif slash and organization.casefold() == owner.casefold():
            teams[team.casefold()] = team
        elif slash:
            notes.append(f"{name!r} is no team of {owner}, so it was not asked for a review.")
    return Reviewers(tuple(people.values()), tuple(teams.values()), tuple(notes))
