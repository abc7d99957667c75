"""Whether a branch's pull request is the one that is asked for, on whichever platform. Pure."""

from typing import NamedTuple

from agentjobs.forges.protocol import ForgeError, PullRequestRequest


class Existing(NamedTuple):
    """The branch's pull request; `head_commit` is what it was merged with, once it was."""

    number: int
    state: str
    head_commit: str


def is_wanted(existing: Existing | None, request: PullRequestRequest) -> bool:
    """False: another one is to be opened. Raises ForgeError where none may be."""
    branch = request.head_branch
    if existing is None:
        if request.goes_on:
            raise ForgeError(f"The branch {branch!r} has no pull request any more.")
        return False
    number, state, head_commit = existing
    if state == "closed":
        raise ForgeError(f"Pull request {number} of the branch {branch!r} was closed unmerged.")
    is_left_out = state == "merged" and head_commit != request.head_commit
    if is_left_out and request.goes_on:
        raise ForgeError(
            f"Pull request {number} was merged before {request.head_commit[:12]} was part of it; "
            f"that commit is on the branch {branch!r}."
        )
    return not is_left_out
