"""Errors of checkouts and publishing. Users see their messages."""

from typing import Literal

from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.remote import Remote, is_host_unreachable


class RepoUnavailable(Exception):
    """The repository cannot be reached, read or checked out; the message says why.

    `is_temporary`: the host did not respond or only with an error, so a retry may succeed.
    `is_host_unreachable`: it did not respond at all, so that no other repository can be reached.
    """

    def __init__(
        self, message: str, *, is_temporary: bool = False, is_host_unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.is_host_unreachable = is_host_unreachable


def repo_unavailable(summary: str, remote: Remote, error: GitError) -> RepoUnavailable:
    return RepoUnavailable(
        f"{summary}: {error.reason}",
        is_temporary=error.was_killed or remote.is_temporary_failure(error.stderr),
        is_host_unreachable=is_host_unreachable(error.stderr),
    )


class BaseBranchMissing(Exception):
    """The repository has no such branch."""

    def __init__(self, branch: str) -> None:
        super().__init__(f"the repository has no branch {branch!r}")
        self.branch = branch


class UnsafeChange(Exception):
    """A change that the service refuses to commit; the message names the paths."""

    def __init__(self, code: Literal["unsafe_change", "protected_path"], message: str) -> None:
        super().__init__(message)
        self.code = code


class PushRejected(Exception):
    """The remote refused the branch; the message says why."""


class PushDenied(PushRejected):
    """The remote does not let this credential push at all, whatever the branch contains."""
