"""Pull requests on Gitea: finding that of a branch or opening one, and merging.

Labels and reviewers are in `extras`.
"""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Literal

import msgspec

from agentjobs.platforms.adoption import find_adoptable, send_once
from agentjobs.platforms.gitea.responses import (
    DRAFT_MARK,
    MAX_BODY_BYTES,
    ONE_OR_MORE_REFERENCES,
    Pull,
    as_list,
)
from agentjobs.platforms.http.client import ApiError, PlatformApi, build_path
from agentjobs.platforms.protocol import MergeMethod, PlatformError, PullRequestRequest
from agentjobs.platforms.text import truncate

READ_REPOSITORY = "read:repository"
WRITE_REPOSITORY = "write:repository"
PAGE = 50
# Only the latest closed ones are searched: Gitea computes the changes of each.
_CLOSED_PAGES = 1
_OPEN_PAGES = 40
# Gitea checks in the background whether there are conflicts. It asks to try again later for
# conflicts too.
_CHECK_WAITS = (1.0, 2.0, 4.0)
_TRY_AGAIN = "try again later"


class Pulls:
    """Pull requests of the repository at an API path such as /repos/owner/name."""

    def __init__(self, api: PlatformApi, repository: str) -> None:
        self._api = api
        self._repository = repository
        self._path = f"{repository}/pulls"

    async def get(self, number: int) -> Pull:
        pull = await self._api.get_as(Pull, f"{self._path}/{number}", needs=READ_REPOSITORY)
        return await self._with_merged_head(pull)

    async def of_branch(self, branch: str, base: str) -> Pull | None:
        """The open one, else the latest; `base` is its most likely base branch."""
        exact = await self._exact(branch, base)
        if exact is not None and exact.pull_state == "open":
            return exact
        # The base may have changed, and of several with these branches Gitea returns any one.
        opened = await self._listed(branch, "open", _OPEN_PAGES)
        return opened or await self._listed(branch, "closed", _CLOSED_PAGES) or exact

    async def newest_open(self, base: str) -> list[Pull]:
        """Searches the most recently updated ones: Gitea does not sort by creation."""
        page: list[Pull] = await anext(self._pages("open", 1), [])
        pulls = [pull for pull in page if pull.base.label == base]
        return sorted(pulls, key=lambda pull: pull.number, reverse=True)

    async def _with_merged_head(self, pull: Pull) -> Pull:
        """The commit that was merged is the head, even if the branch has moved since."""
        if not pull.merged:
            return pull
        name = f"pull/{pull.number}/head"
        path = f"{self._repository}/git/refs{build_path(name)}"
        references = await self._api.get_or_none(
            ONE_OR_MORE_REFERENCES, path, needs=READ_REPOSITORY
        )
        for reference in as_list(references or []):
            if reference.ref == f"refs/{name}":
                head = msgspec.structs.replace(pull.head, sha=reference.object.sha)
                return msgspec.structs.replace(pull, head=head)
        return pull

    async def find_adoptable(self, request: PullRequestRequest) -> Pull | None:
        """None if a new one should be opened. Raises PlatformError if neither is possible."""
        existing = await self.of_branch(request.head_branch, request.base_branch)
        existing = None if existing is None else await self._with_merged_head(existing)
        return find_adoptable(existing, request)

    async def create(self, request: PullRequestRequest) -> Pull:
        """Retried only after checking whether the last attempt opened one."""
        return await send_once(
            self._api.retry_budget,
            lambda: self._create(request),
            lambda: self.find_adoptable(request),
            may_exist=lambda error: not error.is_unprocessed or error.status == HTTPStatus.CONFLICT,
        )

    async def merge(self, number: int, method: MergeMethod, head_commit: str) -> None:
        """Merge it once Gitea has checked it. Raises PlatformError."""
        path, body = f"{self._path}/{number}/merge", {"Do": method, "head_commit_id": head_commit}
        for seconds in (*_CHECK_WAITS, None):
            try:
                await self._api.post(path, body, needs=WRITE_REPOSITORY)
                return
            except ApiError as error:
                if error.status != HTTPStatus.METHOD_NOT_ALLOWED or _TRY_AGAIN not in str(error):
                    raise
            if seconds is not None:
                await self._api.retry_budget.pause("Gitea checks whether it can be merged", seconds)
        raise PlatformError("Gitea cannot merge it: it has conflicts, or is still being checked.")

    async def as_draft(
        self, pull: Pull, request: PullRequestRequest
    ) -> tuple[Pull, tuple[str, ...]]:
        """Convert a follow-up's pull request back to a draft if requested; returns notes too."""
        if not request.draft or pull.is_draft:
            return pull, ()
        if DRAFT_MARK.is_in(pull.title):
            return pull, ("This Gitea does not treat “WIP:” as the mark of a draft.",)
        if not request.is_follow_up:
            return pull, ()
        path = f"{self._path}/{pull.number}"
        body = {"title": DRAFT_MARK.add(pull.title)}
        try:
            return await self._api.send_as(Pull, "PATCH", path, body, needs=WRITE_REPOSITORY), ()
        except PlatformError as error:
            return pull, (f"The pull request could not be converted back to a draft: {error}",)

    async def _create(self, request: PullRequestRequest) -> Pull:
        body = {
            "head": request.head_branch,
            "base": request.base_branch,
            "title": DRAFT_MARK.build_title(request),
            "body": truncate(request.body, MAX_BODY_BYTES),
        }
        created = await self._api.send_as(Pull, "POST", self._path, body, needs=WRITE_REPOSITORY)
        return await self._keep_first(created)

    async def _keep_first(self, created: Pull) -> Pull:
        """Gitea opens one for each concurrent request: keep the first and close this one."""
        duplicates = [created]
        try:
            async for page in self._pages("open", max_pages=1):
                duplicates += [pull for pull in page if pull.is_duplicate(created)]
            first = min(duplicates, key=lambda pull: pull.number)
            if first is not created:
                path, closed = f"{self._path}/{created.number}", {"state": "closed"}
                await self._api.request("PATCH", path, closed, needs=WRITE_REPOSITORY)
        except PlatformError:
            return created
        return first

    async def _exact(self, branch: str, base: str) -> Pull | None:
        if not base:
            return None
        try:
            path = f"{self._path}{build_path(base, branch)}"
            pull = await self._api.get_as(Pull, path, needs=READ_REPOSITORY)
        except PlatformError as error:
            # Older versions do not have this endpoint; the lists have the pull request then.
            if error.fault == "gone":
                return None
            raise
        return pull if pull.is_from(branch) else None

    async def _listed(
        self, branch: str, state: Literal["open", "closed"], max_pages: int
    ) -> Pull | None:
        """The first open one, which is the one that stays; otherwise the last merged."""
        async for page in self._pages(state, max_pages):
            own = [pull for pull in page if pull.is_from(branch)]
            if own and state == "open":
                return min(own, key=lambda pull: pull.number)
            if own:
                return max(own, key=lambda pull: (pull.merged, pull.number))
        return None

    async def _pages(
        self, state: Literal["open", "closed"], max_pages: int
    ) -> AsyncIterator[list[Pull]]:
        """The most recently updated first, at most so many pages."""
        pages = self._api.pages(
            list[Pull],
            self._path,
            needs=READ_REPOSITORY,
            state=state,
            sort="recentupdate",
            limit=PAGE,
        )
        for _ in range(max_pages):
            page = await anext(pages, None)
            if page is None:
                return
            yield page
