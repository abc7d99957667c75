"""Which error code and message an exception of a run gives to its job."""

import logging
from collections.abc import Mapping

from agentjobs.inventory.index.process import IndexFailure
from agentjobs.platforms.protocol import PlatformError
from agentjobs.tickets.protocol import TicketNotFound
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.errors import (
    BaseBranchMissing,
    PushRejected,
    RepoUnavailable,
    UnsafeChange,
)
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed, Failed, JobFailed
from agentjobs_runtime.repo_configuration import ConfigurationError

_log = logging.getLogger(__name__)
_CODES: Mapping[type[Exception], str] = {
    ConfigurationError: "invalid_configuration",
    EnvironmentFailed: "environment_failed",
    TicketNotFound: "ticket_not_found",
    RepoUnavailable: "repo_unavailable",
    GitError: "repo_unavailable",
    PushRejected: "push_rejected",
    PlatformError: "forge_error",
}


def to_failure(
    error: Exception,
    job: ClaimedJob,
    *,
    is_pushed: bool = False,
    others: Mapping[type[Exception], str] = {},
) -> Failed:
    """`others` are codes of errors that only the caller knows."""
    match error:
        case BaseBranchMissing():
            return _missing_branch(job, error.branch)
        case IndexFailure():
            return Failed("sandbox_error", f"The manifests could not be read: {error}")
        case OSError():
            reason = error.strerror or str(error)
            return Failed("sandbox_error", f"The worker's operating system reported: {reason}.")
    if (code := _find_code(error, {**others, **_CODES}, is_pushed=is_pushed)) is not None:
        return Failed(code, str(error))
    _log.error("a run failed with an unexpected error", exc_info=error)
    message = "The worker failed to run this job. The reason is in the worker's log."
    return Failed("sandbox_error", message)


def _find_code(
    error: Exception, codes: Mapping[type[Exception], str], *, is_pushed: bool
) -> str | None:
    match error:
        case JobFailed() | UnsafeChange():
            return error.code
        case PlatformError() if error.fault == "gone" and not is_pushed:
            return "repo_unavailable"
    return next((code for kind, code in codes.items() if isinstance(error, kind)), None)


def _missing_branch(job: ClaimedJob, branch: str) -> Failed:
    message = f"The repository {job.repo!r} has no branch {branch!r}."
    if branch == job.branch:
        return Failed("forge_error", f"{message} Create a new job.")
    is_default = branch == job.default_branch
    return Failed("repo_unavailable" if is_default else "invalid_configuration", message)
