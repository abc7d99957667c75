"""A branch's pull request on Gitea: finding it, and opening one if there is none.

Knows when one is adopted; labels and reviewers are `gitea_wishes`' business.
"""

from collections.abc import AsyncIterator
from itertools import count
from typing import Literal, TypeVar

from agentjobs.forges.adoption import Existing, is_wanted
from agentjobs.forges.gitea.responses import (
    MOST_BODY,
    ONE_OR_SEVERAL_REFERENCES,
    Pull,
    draft_title,
    has_draft_mark,
    references_in,
    title_for,
)
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget, path_of
from agentjobs.forges.http.decode import shaped
from agentjobs.forges.http.pagination import Bounds, PagesRead
from agentjobs.forges.protocol import ForgeError, PullRequestRequest
from agentjobs.forges.text import body_of
from agentjobs.forges.validate import count_in

READS = "read:repository"
WRITES = "write:repository"
PAGE = 50
_USUAL = Bounds()
# Of those that were closed, only the latest are looked through: Gitea counts changes for each.
_CLOSED_PAGES = 1
_OPEN_PAGES = 40
_CONFLICT = 409
Shape = TypeVar("Shape")


class Pulls:
    """Of the repository at a path of the API, such as /repos/owner/name."""

    def __init__(self, api: PlatformApi, retry_budget: RetryBudget, repository: str) -> None:
        self._api = api
        self._retry_budget = retry_budget
        self._repository = repository
        self._path = f"{repository}/pulls"

    async def one(self, number: int) -> Pull:
        return await self._api.get_as(Pull, f"{self._path}/{number}", needs=READS)

    async def of_branch(self, branch: str, base: str) -> Pull | None:
        """The open one, else the latest; `base` is where it most likely leads to."""
        exact = await self._exact(branch, base)
        if exact is not None and exact.pull_state == "open":
            return exact
        # It may lead elsewhere now; and of several with these branches Gitea tells any one.
        found = await self._listed(branch, "open", _OPEN_PAGES)
        return found or await self._listed(branch, "closed", _CLOSED_PAGES) or exact

    async def head_of(self, pull: Pull) -> str:
        """What was merged, even if the branch went on after that."""
        if not pull.merged:
            return pull.head.sha
        name = f"pull/{pull.number}/head"
        path = f"{self._repository}/git/refs{path_of(name)}"
        try:
            told = await self._api.get_as(ONE_OR_SEVERAL_REFERENCES, path, needs=READS)
        except ForgeError as error:
            if error.fault == "gone":
                return pull.head.sha
            raise
        for reference in references_in(told):
            if reference.ref == f"refs/{name}":
                return reference.object.sha
        return pull.head.sha

    async def adopted(self, request: PullRequestRequest) -> Pull | None:
        """None: one is to be opened. Raises ForgeError where none may be."""
        existing = await self.of_branch(request.head_branch, request.base_branch)
        known = None
        if existing is not None:
            is_merged = existing.pull_state == "merged"
            head = await self.head_of(existing) if is_merged else ""
            known = Existing(existing.number, existing.pull_state, head)
        return existing if is_wanted(known, request) else None

    async def create(self, request: PullRequestRequest) -> Pull:
        """Repeated only after a look at what the last attempt came to."""
        attempt = 0
        while True:
            try:
                return await self._sole(await self._create(request))
            except ApiError as error:
                if error.is_undone and error.status != _CONFLICT:
                    raise
                existing = await self.adopted(request)
                if existing is not None:
                    return existing
                if not (
                    error.may_pass
                    and await self._retry_budget.wait(error.trouble, attempt, error.wait_seconds)
                ):
                    raise
            attempt += 1

    async def as_draft(
        self, pull: Pull, request: PullRequestRequest
    ) -> tuple[Pull, tuple[str, ...]]:
        """Again, if the work goes on as one; and what is to be said about it."""
        if not request.draft or pull.is_draft:
            return pull, ()
        if has_draft_mark(pull.title):
            return pull, ("This Gitea does not take “WIP:” for the mark of a draft.",)
        if not request.goes_on:
            return pull, ()
        path = f"{self._path}/{pull.number}"
        body = {"title": draft_title(pull.title)}
        try:
            return await self._api.send_as(Pull, "PATCH", path, body, needs=WRITES), ()
        except ForgeError as error:
            return pull, (f"The pull request could not be made a draft again: {error}",)

    async def _create(self, request: PullRequestRequest) -> Pull:
        body = {
            "head": request.head_branch,
            "base": request.base_branch,
            "title": title_for(request),
            "body": body_of(request, MOST_BODY),
        }
        return await self._api.send_as(Pull, "POST", self._path, body, needs=WRITES)

    async def _sole(self, made: Pull) -> Pull:
        """Gitea opens one for each of those who ask at once: the first stays, ours is closed."""
        twins = [made]
        try:
            async for page in self._pages("open", most=1):
                twins += [pull for pull in page if pull.is_twin_of(made)]
            first = min(twins, key=lambda pull: pull.number)
            if first is not made:
                closed = {"state": "closed"}
                await self._api.patch(f"{self._path}/{made.number}", closed, needs=WRITES)
        except ForgeError:
            return made
        return first

    async def _exact(self, branch: str, base: str) -> Pull | None:
        if not base:
            return None
        try:
            path = f"{self._path}{path_of(base, branch)}"
            found = await self._api.get_as(Pull, path, needs=READS)
        except ForgeError as error:
            # Also of a version that cannot be asked so: the lists tell it then.
            if error.fault == "gone":
                return None
            raise
        return found if found.is_of(branch) else None

    async def _listed(
        self, branch: str, state: Literal["open", "closed"], most_pages: int
    ) -> Pull | None:
        """Of several, the first that is open: it is the one that stays. Else the last merged."""
        async for page in self._pages(state, most_pages):
            own = [pull for pull in page if pull.is_of(branch)]
            if own and state == "open":
                return min(own, key=lambda pull: pull.number)
            if own:
                return max(own, key=lambda pull: (pull.merged, pull.number))
        return None

    def _pages(self, state: Literal["open", "closed"], most: int) -> AsyncIterator[list[Pull]]:
        """Those that changed last come first."""
        return numbered_pages(
            self._api,
            list[Pull],
            self._path,
            needs=READS,
            most=most,
            state=state,
            sort="recentupdate",
        )


async def numbered_pages(
    api: PlatformApi,
    shape: type[list[Shape]],
    path: str,
    *,
    needs: str,
    most: int | None = None,
    bounds: Bounds = _USUAL,
    **query: str,
) -> AsyncIterator[list[Shape]]:
    """Counted, because the links to further pages lead to where Gitea believes itself to be.

    `most` are all that anybody wants; more than `bounds` have no end. Raises ForgeError.
    """
    read = PagesRead(api.platform, bounds)
    seen = 0
    for number in count(1):
        if most is not None and number > most:
            return
        answer = await api.ask("GET", path, needs=needs, page=number, limit=PAGE, **query)
        read.note(answer)
        page = shaped(api.platform, answer, shape)
        read.plausible(page)
        if page:
            yield page
        seen += len(page)
        total = count_in(answer.headers.get("X-Total-Count", ""))
        if not page or (total is not None and seen >= total):
            return
