"""Decides whether a branch's existing pull request is used, on any platform. Pure functions."""

from typing import NamedTuple

from agentjobs.forges.protocol import ForgeError, PullRequestRequest


class ExistingPull(NamedTuple):
    """The branch's pull request; `head_commit` is the one that was merged, if it was."""

    number: int
    state: str
    head_commit: str


def is_adoptable(existing: ExistingPull | None, request: PullRequestRequest) -> bool:
    """False if a new one should be opened. Raises ForgeError if neither is possible."""
    branch = request.head_branch
    if existing is None:
        if request.is_follow_up:
            raise ForgeError(f"The branch {branch!r} no longer has a pull request.")
        return False
    number, state, head_commit = existing
    if state == "closed":
        raise ForgeError(f"Pull request {number} of branch {branch!r} was closed without merging.")
    lacks_commit = state == "merged" and head_commit != request.head_commit
    if lacks_commit and request.is_follow_up:
        raise ForgeError(
            f"Pull request {number} was merged before {request.head_commit[:12]} was part of it; "
            f"that commit is on the branch {branch!r}."
        )
    return not lacks_commit
