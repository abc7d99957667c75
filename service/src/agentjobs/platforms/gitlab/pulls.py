"""Opens a merge request for a pushed branch: exactly one, even if responses are lost. Merges it.

The project is given as an API path.
"""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from agentjobs.platforms.adoption import find_adoptable, send_once
from agentjobs.platforms.gitlab.responses import (
    DRAFT_MARK,
    MergeRequest,
    User,
    escape_quick_actions,
    newest_of_branch,
)
from agentjobs.platforms.http.client import ApiError, PlatformApi
from agentjobs.platforms.protocol import PlatformError, PullRequest, PullRequestRequest
from agentjobs.platforms.text import one_line
from agentjobs.platforms.validate import validate

NEEDS = "scope api, role Developer"
MAX_REVIEWERS = 20
# GitLab checks in the background whether it can be merged, and refuses to merge until it has.
_CHECK_WAITS = (1.0, 2.0, 4.0, 8.0)
_NOT_ALLOWED = (
    "GitLab does not let the account of the connection merge into this branch; give it a role that"
    " may."
)
# Which one depends on GitLab's version.
_NOT_MERGEABLE = frozenset(
    {
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


class PullExtras(msgspec.Struct, frozen=True):
    """Labels and reviewers; the merge request is opened without them if GitLab refuses."""

    reviewers: dict[int, str] = {}
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        fields: dict[str, object] = {}
        if self.labels:
            fields["labels"] = ",".join(self.labels)
        if self.reviewers:
            fields["reviewer_ids"] = list(self.reviewers)
        return fields

    def notes_on(self, created: MergeRequest) -> tuple[str, ...]:
        """GitLab silently drops labels and reviewers that it does not accept."""
        labels = {label.casefold() for label in created.labels}
        reviewers = {user.id for user in created.reviewers}
        return (
            *self.notes,
            *(
                f"GitLab did not accept the label {label!r}."
                for label in self.labels
                if label.casefold() not in labels
            ),
            *(
                f"GitLab did not accept {login!r} as a reviewer."
                for user_id, login in self.reviewers.items()
                if user_id not in reviewers
            ),
        )


class MergeRequests:
    def __init__(self, api: PlatformApi, project: str) -> None:
        self._api = api
        self._path = f"{project}/merge_requests"

    async def of_branch(self, branch: str) -> MergeRequest | None:
        merge_requests = self._api.items(
            MergeRequest,
            self._path,
            needs=NEEDS,
            source_branch=branch,
            state="all",
            order_by="created_at",
            sort="desc",
            per_page=100,
        )
        return newest_of_branch([merge_request async for merge_request in merge_requests])

    async def open(self, request: PullRequestRequest) -> PullRequest:
        existing = find_adoptable(await self.of_branch(request.head_branch), request)
        if existing is not None:
            return await self._reuse(existing, request)
        extras = await self._extras(request)
        created = await self._create_or_adopt(request, extras.fields)
        return _pull_request(created, created.draft, *extras.notes_on(created))

    async def merge(self, number: int, *, squash: bool, head_commit: str) -> None:
        """Merge it once GitLab has checked it. Raises PlatformError."""
        path, body = f"{self._path}/{number}", {"sha": head_commit, "squash": squash}
        for seconds in (*_CHECK_WAITS, None):
            try:
                await self._api.request("PUT", f"{path}/merge", body, needs=NEEDS)
                return
            except ApiError as error:
                if error.status == HTTPStatus.UNAUTHORIZED:
                    raise PlatformError(_NOT_ALLOWED, "denied") from None
                if error.status not in _NOT_MERGEABLE:
                    raise
                merge_request = await self._api.get_as(MergeRequest, path, needs=NEEDS)
                if seconds is None or not merge_request.may_be_mergeable:
                    raise _not_mergeable(merge_request, error) from None
            await self._api.retry_budget.pause("GitLab checks whether it can be merged", seconds)

    async def _create_or_adopt(
        self, request: PullRequestRequest, extras: dict[str, object]
    ) -> MergeRequest:
        async def find() -> MergeRequest | None:
            return find_adoptable(await self.of_branch(request.head_branch), request)

        async def drop_extras(error: ApiError) -> bool:
            nonlocal extras
            is_changed = error.fault == "refused" and bool(extras)
            extras = {} if is_changed else extras
            return is_changed

        return await send_once(
            self._api.retry_budget,
            lambda: self._create(request, extras),
            find,
            # A concurrent attempt may have opened it.
            may_exist=lambda error: error.fault in {"away", "refused", "unusable"},
            change_request=drop_extras,
        )

    async def _create(self, request: PullRequestRequest, extras: dict[str, object]) -> MergeRequest:
        body = {
            "source_branch": request.head_branch,
            "target_branch": request.base_branch,
            "title": DRAFT_MARK.build_title(request),
            "description": escape_quick_actions(request.body),
            **extras,
        }
        return await self._api.send_as(MergeRequest, "POST", self._path, body, needs=NEEDS)

    async def _reuse(self, existing: MergeRequest, request: PullRequestRequest) -> PullRequest:
        becomes_draft = request.is_follow_up and request.draft and existing.pull_state == "open"
        if not becomes_draft or existing.draft:
            return _pull_request(existing, existing.draft)
        path = f"{self._path}/{existing.iid}"
        body = {"title": DRAFT_MARK.add(existing.title)}
        try:
            changed = await self._api.send_as(MergeRequest, "PUT", path, body, needs=NEEDS)
        except PlatformError as error:
            note = f"The merge request could not be converted back to a draft: {error}"
            return _pull_request(existing, existing.draft, note)
        return _pull_request(existing, changed.draft)

    async def _extras(self, request: PullRequestRequest) -> PullExtras:
        labels = list(dict.fromkeys(one_line(label) for label in request.labels if label.strip()))
        notes = [
            f"GitLab does not allow commas in labels: {label!r} was left out."
            for label in labels
            if "," in label
        ]
        names = normalize_reviewers(request.reviewers)
        reviewers, unknown = await self._reviewers(names)
        return PullExtras(
            reviewers,
            tuple(label for label in labels if "," not in label),
            (*notes, *unknown),
        )

    async def _reviewers(self, names: list[str]) -> tuple[dict[int, str], list[str]]:
        reviewers: dict[int, str] = {}
        notes = []
        for name in names[:MAX_REVIEWERS]:
            if "/" in name:
                notes.append(f"GitLab does not accept groups as reviewers: {name!r} was left out.")
                continue
            try:
                user = await find_user(self._api, name)
            except PlatformError as error:
                notes.append(f"{name!r} could not be requested as a reviewer: {error}")
                continue
            if user is None:
                notes.append(f"GitLab has no user {name!r} to request as a reviewer.")
            else:
                reviewers[user.id] = user.username
        if len(names) > MAX_REVIEWERS:
            notes.append(f"Only the first {MAX_REVIEWERS} reviewers were requested.")
        return await self._without_own_account(reviewers), notes

    async def _without_own_account(self, reviewers: dict[int, str]) -> dict[int, str]:
        if not reviewers:
            return reviewers
        try:
            own = await self._api.get_as(User, "/user")
        except PlatformError:
            return reviewers
        return {user_id: login for user_id, login in reviewers.items() if user_id != own.id}


def _pull_request(merge_request: MergeRequest, draft: bool, *notes: str) -> PullRequest:
    return validate("GitLab", PullRequest(merge_request.iid, merge_request.web_url, draft, notes))


async def find_user(api: PlatformApi, login: str) -> User | None:
    users = await api.get_as(list[User], "/users", username=login)
    folded_login = login.casefold()
    return next((user for user in users if user.username.casefold() == folded_login), None)


def normalize_reviewers(reviewers: Iterable[str]) -> list[str]:
    """Each once, without a leading `@`."""
    names = (one_line(name).removeprefix("@") for name in reviewers)
    return list({name.casefold(): name for name in names if name}.values())


def _not_mergeable(merge_request: MergeRequest, error: ApiError) -> PlatformError:
    """GitLab's own message only says that it is not allowed."""
    status = merge_request.detailed_merge_status or merge_request.merge_status
    if not status:
        return error
    return PlatformError(f"GitLab cannot merge it now: {status.replace('_', ' ')}.")
