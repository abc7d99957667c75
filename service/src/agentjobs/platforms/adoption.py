"""Requests with an effect that must happen once, on any platform: a pull request, a comment."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from agentjobs.platforms.http.client import ApiError, RetryBudget
from agentjobs.platforms.protocol import PlatformError, PullRequestRequest, PullState


class ExistingPull(NamedTuple):
    """The branch's pull request; `head_commit` is the one that was merged, if it was."""

    number: int
    pull_state: PullState
    head_commit: str


class AnyPull(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def pull_state(self) -> PullState: ...
    @property
    def head_commit(self) -> str: ...


Pull = TypeVar("Pull", bound=AnyPull)
Result = TypeVar("Result")


def find_adoptable(existing: Pull | None, request: PullRequestRequest) -> Pull | None:
    """None if a new one should be opened. Raises PlatformError if neither is possible."""
    branch = request.head_branch
    if existing is None:
        if request.is_follow_up:
            raise PlatformError(f"The branch {branch!r} no longer has a pull request.")
        return None
    number, state = existing.number, existing.pull_state
    if state == "closed":
        raise PlatformError(
            f"Pull request {number} of branch {branch!r} was closed without merging."
        )
    lacks_commit = state == "merged" and existing.head_commit != request.head_commit
    if lacks_commit and request.is_follow_up:
        raise PlatformError(
            f"Pull request {number} was merged before {request.head_commit[:12]} was part of it; "
            f"that commit is on the branch {branch!r}."
        )
    return None if lacks_commit else existing


def is_uncertain(error: ApiError) -> bool:
    """Whether the request may have had its effect despite the error."""
    return error.is_temporary and not error.is_unprocessed


async def send_once(
    retry_budget: RetryBudget,
    send: Callable[[], Awaitable[Result]],
    find: Callable[[], Awaitable[Result | None]],
    *,
    may_exist: Callable[[ApiError], bool] = is_uncertain,
    change_request: Callable[[ApiError], Awaitable[bool]] | None = None,
) -> Result:
    """Repeat a request only after `find` has not found what it creates.

    `may_exist`: whether to look for it after an error. `change_request` returns True if it has
    changed what is sent next, so that the request is worth repeating. Raises PlatformError.
    """
    attempt = 0
    while True:
        try:
            return await send()
        except ApiError as error:
            if not may_exist(error):
                raise
            existing = await find()
            if existing is not None:
                return existing
            is_changed = change_request is not None and await change_request(error)
            if not is_changed and not await retry_budget.wait_before_retry(error, attempt):
                raise
        attempt += 1
