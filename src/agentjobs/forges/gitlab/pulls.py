"""Opening a merge request for a branch that was pushed: one, whatever is lost on the way.

Knows when one is adopted; which repository it is about, it is told as a path of the API.
"""

from collections.abc import Iterable

import msgspec

from agentjobs.forges.adoption import Existing, is_wanted
from agentjobs.forges.gitlab.responses import (
    MergeRequest,
    User,
    draft_title,
    harmless,
    newest_of_branch,
    title_for,
)
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.forges.protocol import ForgeError, PullRequest, PullRequestRequest
from agentjobs.forges.text import shown
from agentjobs.forges.validate import plausible

NEEDS = "scope api, role Developer"
MOST_REVIEWERS = 20


class PullExtras(msgspec.Struct, frozen=True):
    """What is asked for beside the merge request itself: it is opened without, if need be."""

    reviewers: dict[int, str] = {}
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self.labels:
            found["labels"] = ",".join(self.labels)
        if self.reviewers:
            found["reviewer_ids"] = list(self.reviewers)
        return found

    def notes_on(self, made: MergeRequest) -> tuple[str, ...]:
        """GitLab leaves out without a word whom or what it does not take."""
        labels = {label.casefold() for label in made.labels}
        reviewers = {user.id for user in made.reviewers}
        return (
            *self.notes,
            *(
                f"GitLab did not take the label {label!r}."
                for label in self.labels
                if label.casefold() not in labels
            ),
            *(
                f"GitLab did not take {login!r} as a reviewer."
                for user_id, login in self.reviewers.items()
                if user_id not in reviewers
            ),
        )


class Opening:
    def __init__(self, api: PlatformApi, retry_budget: RetryBudget, project: str) -> None:
        self._api = api
        self._retry_budget = retry_budget
        self._path = f"{project}/merge_requests"

    async def of_branch(self, branch: str) -> MergeRequest | None:
        found: list[MergeRequest] = []
        pages = self._api.pages(
            list[MergeRequest],
            self._path,
            needs=NEEDS,
            source_branch=branch,
            state="all",
            order_by="created_at",
            sort="desc",
            per_page=100,
        )
        async for page in pages:
            found += [one for one in page if one.is_of_project]
        return newest_of_branch(found)

    async def open(self, request: PullRequestRequest) -> PullRequest:
        existing = adopted(await self.of_branch(request.head_branch), request)
        if existing is not None:
            return await self._go_on(existing, request)
        wishes = await self._wishes(request)
        made = await self._make(request, wishes.fields)
        return _opened(made, made.draft, *wishes.notes_on(made))

    async def _make(self, request: PullRequestRequest, wishes: dict[str, object]) -> MergeRequest:
        attempt = 0
        while True:
            try:
                return await self._create(request, wishes)
            except ApiError as error:
                if error.fault not in {"away", "refused"}:
                    raise
                # It may be there all the same, made by us or by whom we race.
                existing = adopted(await self.of_branch(request.head_branch), request)
                if existing is not None:
                    return existing
                if error.fault == "refused" and wishes:
                    wishes = {}
                elif not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

    async def _create(self, request: PullRequestRequest, wishes: dict[str, object]) -> MergeRequest:
        body = {
            "source_branch": request.head_branch,
            "target_branch": request.base_branch,
            "title": title_for(request),
            "description": harmless(request.body),
            **wishes,
        }
        return await self._api.send_as(MergeRequest, "POST", self._path, body, needs=NEEDS)

    async def _go_on(self, existing: MergeRequest, request: PullRequestRequest) -> PullRequest:
        becomes_draft = request.goes_on and request.draft and existing.pull_state == "open"
        if not becomes_draft or existing.draft:
            return _opened(existing, existing.draft)
        path = f"{self._path}/{existing.iid}"
        body = {"title": draft_title(existing.title)}
        try:
            changed = await self._api.send_as(MergeRequest, "PUT", path, body, needs=NEEDS)
        except ForgeError as error:
            note = f"The merge request could not be made a draft again: {error}"
            return _opened(existing, existing.draft, note)
        return _opened(existing, changed.draft)

    async def _wishes(self, request: PullRequestRequest) -> PullExtras:
        labels = list(dict.fromkeys(shown(label) for label in request.labels if label.strip()))
        notes = [
            f"A label of GitLab has no comma: {label!r} was left out."
            for label in labels
            if "," in label
        ]
        names = reviewer_names(request.reviewers)
        reviewers, unknown = await self._reviewers(names)
        return PullExtras(
            reviewers,
            tuple(label for label in labels if "," not in label),
            (*notes, *unknown),
        )

    async def _reviewers(self, names: list[str]) -> tuple[dict[int, str], list[str]]:
        found: dict[int, str] = {}
        notes = []
        for name in names[:MOST_REVIEWERS]:
            if "/" in name:
                notes.append(f"GitLab asks people for a review, not groups: {name!r} was left out.")
                continue
            try:
                user = await user_called(self._api, name)
            except ForgeError as error:
                notes.append(f"{name!r} was not asked for a review: {error}")
                continue
            if user is None:
                notes.append(f"GitLab knows no user {name!r} who could review.")
            else:
                found[user.id] = user.username
        if len(names) > MOST_REVIEWERS:
            notes.append(f"Only the first {MOST_REVIEWERS} reviewers were asked.")
        return await self._without_ourselves(found), notes

    async def _without_ourselves(self, reviewers: dict[int, str]) -> dict[int, str]:
        if not reviewers:
            return reviewers
        try:
            own = await self._api.get_as(User, "/user")
        except ForgeError:
            return reviewers
        return {user_id: login for user_id, login in reviewers.items() if user_id != own.id}


def _opened(made: MergeRequest, draft: bool, *notes: str) -> PullRequest:
    return plausible("GitLab", PullRequest(made.iid, made.web_url, draft, notes))


def adopted(existing: MergeRequest | None, request: PullRequestRequest) -> MergeRequest | None:
    """None: one is to be opened. Raises ForgeError where none may be."""
    known = None
    if existing is not None:
        known = Existing(existing.iid, existing.pull_state, existing.sha or "")
    return existing if is_wanted(known, request) else None


async def user_called(api: PlatformApi, login: str) -> User | None:
    found = await api.get_as(list[User], "/users", username=login)
    wanted = login.casefold()
    return next((user for user in found if user.username.casefold() == wanted), None)


def reviewer_names(given: Iterable[str]) -> list[str]:
    """Each once, without the sign before it."""
    names = (shown(name).removeprefix("@") for name in given)
    return list({name.casefold(): name for name in names if name}.values())
