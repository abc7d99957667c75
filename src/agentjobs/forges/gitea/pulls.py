"""Finds a branch's pull request on Gitea, or opens one. Labels and reviewers are in `extras`."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Literal, TypeVar

from agentjobs.forges.adoption import ExistingPull, is_adoptable
from agentjobs.forges.gitea.responses import (
    DRAFT_MARK,
    MAX_BODY_BYTES,
    ONE_OR_MORE_REFERENCES,
    Pull,
    as_list,
)
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget, build_path
from agentjobs.forges.http.list_bounds import ListBounds, ListLimits
from agentjobs.forges.http.responses import decode_as
from agentjobs.forges.protocol import ForgeError, PullRequestRequest
from agentjobs.forges.text import pull_body
from agentjobs.forges.validate import parse_count

READ_REPOSITORY = "read:repository"
WRITE_REPOSITORY = "write:repository"
PAGE = 50
_USUAL = ListBounds()
# Only the latest closed ones are searched: Gitea computes the changes of each.
_CLOSED_PAGES = 1
_OPEN_PAGES = 40
_CONFLICT = 409
Shape = TypeVar("Shape")


class Pulls:
    """Pull requests of the repository at an API path such as /repos/owner/name."""

    def __init__(self, api: PlatformApi, retry_budget: RetryBudget, repository: str) -> None:
        self._api = api
        self._retry_budget = retry_budget
        self._repository = repository
        self._path = f"{repository}/pulls"

    async def get(self, number: int) -> Pull:
        return await self._api.get_as(Pull, f"{self._path}/{number}", needs=READ_REPOSITORY)

    async def of_branch(self, branch: str, base: str) -> Pull | None:
        """The open one, else the latest; `base` is its most likely base branch."""
        exact = await self._exact(branch, base)
        if exact is not None and exact.pull_state == "open":
            return exact
        # The base may have changed, and of several with these branches Gitea returns any one.
        opened = await self._listed(branch, "open", _OPEN_PAGES)
        return opened or await self._listed(branch, "closed", _CLOSED_PAGES) or exact

    async def newest_open(self, base: str) -> list[Pull]:
        """Of the most recently updated ones: Gitea does not sort by creation."""
        async for page in self._pages("open", 1):
            pulls = [pull for pull in page if pull.base.label == base]
            return sorted(pulls, key=lambda pull: pull.number, reverse=True)
        return []

    async def head_of(self, pull: Pull) -> str:
        """The commit that was merged, even if the branch has moved since."""
        if not pull.merged:
            return pull.head.sha
        name = f"pull/{pull.number}/head"
        path = f"{self._repository}/git/refs{build_path(name)}"
        references = await self._api.get_or_none(
            ONE_OR_MORE_REFERENCES, path, needs=READ_REPOSITORY
        )
        for reference in as_list(references or []):
            if reference.ref == f"refs/{name}":
                return reference.object.sha
        return pull.head.sha

    async def find_adoptable(self, request: PullRequestRequest) -> Pull | None:
        """None if a new one should be opened. Raises ForgeError if neither is possible."""
        existing = await self.of_branch(request.head_branch, request.base_branch)
        known = None
        if existing is not None:
            is_merged = existing.pull_state == "merged"
            head = await self.head_of(existing) if is_merged else ""
            known = ExistingPull(existing.number, existing.pull_state, head)
        return existing if is_adoptable(known, request) else None

    async def create(self, request: PullRequestRequest) -> Pull:
        """Retried only after checking whether the last attempt opened one."""
        attempt = 0
        while True:
            try:
                return await self._keep_first(await self._create(request))
            except ApiError as error:
                if error.is_unprocessed and error.status != _CONFLICT:
                    raise
                existing = await self.find_adoptable(request)
                if existing is not None:
                    return existing
                if not await self._retry_budget.wait_before_retry(error, attempt):
                    raise
            attempt += 1

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
        except ForgeError as error:
            return pull, (f"The pull request could not be converted back to a draft: {error}",)

    async def _create(self, request: PullRequestRequest) -> Pull:
        body = {
            "head": request.head_branch,
            "base": request.base_branch,
            "title": DRAFT_MARK.title_of(request),
            "body": pull_body(request, MAX_BODY_BYTES),
        }
        return await self._api.send_as(Pull, "POST", self._path, body, needs=WRITE_REPOSITORY)

    async def _keep_first(self, created: Pull) -> Pull:
        """Gitea opens one for each concurrent request: keep the first and close this one."""
        duplicates = [created]
        try:
            async for page in self._pages("open", max_pages=1):
                duplicates += [pull for pull in page if pull.is_duplicate_of(created)]
            first = min(duplicates, key=lambda pull: pull.number)
            if first is not created:
                closed = {"state": "closed"}
                await self._api.patch(
                    f"{self._path}/{created.number}", closed, needs=WRITE_REPOSITORY
                )
        except ForgeError:
            return created
        return first

    async def _exact(self, branch: str, base: str) -> Pull | None:
        if not base:
            return None
        try:
            path = f"{self._path}{build_path(base, branch)}"
            pull = await self._api.get_as(Pull, path, needs=READ_REPOSITORY)
        except ForgeError as error:
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

    def _pages(self, state: Literal["open", "closed"], max_pages: int) -> AsyncIterator[list[Pull]]:
        """The most recently updated first."""
        return numbered_pages(
            self._api,
            list[Pull],
            self._path,
            needs=READ_REPOSITORY,
            max_pages=max_pages,
            state=state,
            sort="recentupdate",
        )


async def numbered_pages(
    api: PlatformApi,
    shape: type[list[Shape]],
    path: str,
    *,
    needs: str,
    max_pages: int | None = None,
    bounds: ListBounds = _USUAL,
    **query: str,
) -> AsyncIterator[list[Shape]]:
    """Pages by number, because links to further pages use Gitea's root URL, which may be wrong.

    Reading stops after `max_pages`; a list beyond `bounds` is an error. Raises ForgeError.
    """
    limits = ListLimits(api.platform, bounds)
    read = 0
    for number in count(1):
        if max_pages is not None and number > max_pages:
            return
        response = await api.request("GET", path, needs=needs, page=number, limit=PAGE, **query)
        limits.count(response)
        page = decode_as(api.platform, response, shape)
        limits.check_length(page)
        if page:
            yield page
        read += len(page)
        total = parse_count(response.headers.get("X-Total-Count", ""))
        if not page or (total is not None and read >= total):
            return
