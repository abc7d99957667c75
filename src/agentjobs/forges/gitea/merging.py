"""Merges a pull request, once Gitea has checked whether it has conflicts."""

from http import HTTPStatus

from agentjobs.forges.gitea.pulls import WRITE_REPOSITORY
from agentjobs.forges.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.forges.protocol import ForgeError, MergeMethod

# Gitea checks in the background. It asks to try again later for conflicts too.
_CHECK_WAITS = (1.0, 2.0, 4.0)
_TRY_AGAIN = "try again later"


async def merge_when_checked(
    api: PlatformApi,
    retry_budget: RetryBudget,
    path: str,
    *,
    method: MergeMethod,
    head_commit: str,
) -> None:
    """`path` is that of the pull request. Raises ForgeError."""
    waits = iter(_CHECK_WAITS)
    body = {"Do": method, "head_commit_id": head_commit}
    while True:
        try:
            await api.post(f"{path}/merge", body, needs=WRITE_REPOSITORY)
            return
        except ApiError as error:
            is_unready = error.status == HTTPStatus.METHOD_NOT_ALLOWED and _TRY_AGAIN in str(error)
            if not is_unready:
                raise
            seconds = next(waits, None)
            if seconds is None:
                message = "Gitea cannot merge it: it has conflicts, or is still being checked."
                raise ForgeError(message) from None
        await retry_budget.pause("Gitea checks whether it can be merged", seconds)
