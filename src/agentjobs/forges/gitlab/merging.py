"""Merges a merge request, once GitLab has checked whether it can be merged."""

from http import HTTPStatus

from agentjobs.forges.gitlab.pulls import NEEDS
from agentjobs.forges.gitlab.responses import MergeRequest
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.forges.protocol import ForgeError

# GitLab checks in the background, and refuses to merge until it has.
_CHECK_WAITS = (1.0, 2.0, 4.0, 8.0)
# Which one depends on GitLab's version.
_NOT_MERGEABLE = frozenset(
    {
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


async def merge_when_checked(
    api: PlatformApi, retry_budget: RetryBudget, path: str, *, squash: bool, head_commit: str
) -> None:
    """`path` is that of the merge request. Raises ForgeError."""
    waits = iter(_CHECK_WAITS)
    while True:
        try:
            await api.put(f"{path}/merge", {"sha": head_commit, "squash": squash}, needs=NEEDS)
            return
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise _not_allowed() from None
            if error.status not in _NOT_MERGEABLE:
                raise
            merge_request = await api.get_as(MergeRequest, path, needs=NEEDS)
            seconds = next(waits, None) if merge_request.may_be_mergeable else None
            if seconds is None:
                raise _not_mergeable(merge_request, error) from None
        await retry_budget.pause("GitLab checks whether it can be merged", seconds)


def _not_allowed() -> ForgeError:
    return ForgeError(
        "GitLab does not let the account of the connection merge into this branch; give it a role "
        "that may.",
        "denied",
    )


def _not_mergeable(merge_request: MergeRequest, error: ApiError) -> ForgeError:
    """GitLab's own message only says that it is not allowed."""
    status = merge_request.detailed_merge_status or merge_request.merge_status
    if not status:
        return error
    return ForgeError(f"GitLab cannot merge it now: {status.replace('_', ' ')}.")
