"""How an exception ends a run: the only place that turns errors into outcomes."""

import contextlib
import logging
import signal

from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.errors import (
    BaseBranchMissing,
    PushDenied,
    PushRejected,
    RepoUnavailable,
    UnsafeChange,
)
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError, ServiceUnavailable
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    DiskFull,
    EnvironmentFailed,
    Failed,
    JobFailed,
    Kept,
    LostSandbox,
    NotReady,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_runtime.repo_configuration import ConfigurationError
from agentjobs_worker.environments.choice import EnvironmentNotReady
from agentjobs_worker.link.publishing import (
    CLOSED_DELAY_MS,
    IndexFailure,
    PlatformError,
    TicketNotFound,
    TrackerUnavailable,
    classify_outage,
    keep_finished_work,
    publishing_outage,
    record_finished_branch,
    sync_soon,
)
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.host_exhaustion import is_host_exhausted
from agentjobs_worker.sandbox.protocol import (
    ImageUnavailable,
    SandboxError,
    SandboxLost,
    UnusableResult,
)

_log = logging.getLogger(__name__)
_CODES: dict[type[Exception], str] = {
    ConfigurationError: "invalid_configuration",
    EnvironmentFailed: "environment_failed",
    TicketNotFound: "ticket_not_found",
    RepoUnavailable: "repo_unavailable",
    GitError: "repo_unavailable",
    PushRejected: "push_rejected",
    ImageUnavailable: "environment_failed",
    UnusableResult: "unsafe_change",
    SandboxError: "sandbox_error",
    PlatformError: "forge_error",
}


async def to_outcome(error: Exception, run: RunContext) -> Outcome:
    if (waiting := await _requeue(error, run)) is not None:
        return waiting
    match error:
        case ClaimLost():
            return Abandoned()
        case ServiceUnavailable():
            _log.warning("the database became unavailable during a run: %s", error)
            return Released()
        case GitError() if error.exit_code == -signal.SIGINT:
            # Ctrl-C in the service's terminal: git had not left its process group yet.
            return Released()
        case PlatformError() if error.is_of_connection:
            await sync_soon(run.service)
    failure = _to_failure(error, run)
    # Where the service keeps its files is not shown to clients.
    message = failure.message.replace(run.settings.data_dir, "…")
    return await _charge(Failed(failure.code, run.log.redact(message)), error, run)


async def _requeue(
    error: Exception, run: RunContext
) -> Unreachable | NotReady | LostSandbox | Kept | None:
    """For errors of other parts, which the job's log explains; None for all others."""
    if is_host_exhausted(error):
        reason = run.log.redact(str(error)).replace(run.settings.data_dir, "…")
        message = f"The machine of the worker is exhausted: {reason}."
        run.log.note(f"{message} The job is queued again.")
        kept = await keep_finished_work(run.service, run.finished_work)
        return kept or LostSandbox(Failed("sandbox_error", message), is_host_exhausted=True)
    if (outage := await _find_outage(error, run)) is not None:
        what = "tracker" if isinstance(error, TrackerUnavailable) else "platform"
        run.log.note(f"the job waits until its {what} responds: {outage.message}")
        return Unreachable(outage)
    if isinstance(error, EnvironmentNotReady):
        run.log.note(str(error))
        return NotReady(error.hold)
    if isinstance(error, SandboxLost):
        reason = run.log.redact(str(error))
        run.log.note(f"the sandbox was lost, and the job is queued again: {reason}")
        return LostSandbox(Failed("sandbox_error", f"The sandbox was lost: {reason}."))
    return None


async def _charge(failure: Failed, error: Exception, run: RunContext) -> Failed | Kept | DiskFull:
    """A full disk is not the job's fault."""
    if not is_lack_of_space(error, run.settings):
        await _leave_branch(run)
        return failure
    failure = Failed(failure.code, f"The disk of the worker is full: {failure.message}")
    run.log.note(failure.message)
    kept = await keep_finished_work(run.service, run.finished_work)
    return kept or DiskFull(failure, run.settings.lost_worker_retries + 1)


async def _leave_branch(run: RunContext) -> None:
    """The branch of a job that fails after its push has no pull request and is deleted."""
    job, commit = run.job, run.pushed_commit
    if commit is None or job.connection_id is None or job.follows is not None:
        return
    with contextlib.suppress(ServiceError):
        await run.service.db.transact(
            record_finished_branch, job.repo_id, job.branch, commit, CLOSED_DELAY_MS
        )


async def _find_outage(error: Exception, run: RunContext) -> Outage | None:
    """What the job waits for; None if the error ends it."""
    match error:
        case RepoUnavailable() | PlatformError() | PushDenied() if run.job.kept_at is not None:
            return await publishing_outage(error, run.service)
        case RepoUnavailable() | PlatformError() if error.is_temporary:
            return classify_outage(error, run.service)
        case PlatformError() if error.fault == "unusable":
            await sync_soon(run.service)
            await run.warn(f"The job waits for its platform: {error}")
            return classify_outage(error, run.service)
        case TrackerUnavailable():
            return Outage(error.key, run.log.redact(str(error)), error.retry_after_seconds)
    return None


def _to_failure(error: Exception, run: RunContext) -> Failed:
    match error:
        case JobFailed() | UnsafeChange():
            return Failed(error.code, str(error))
        case BaseBranchMissing():
            return _missing_branch(run.job, error.branch)
        case IndexFailure():
            return Failed("sandbox_error", f"The manifests could not be read: {error}")
        case OSError():
            reason = error.strerror or str(error)
            return Failed("sandbox_error", f"The worker's operating system reported: {reason}.")
    code = _find_code(error, run)
    if code is not None:
        return Failed(code, str(error))
    _log.error("a run failed with an unexpected error", exc_info=error)
    message = "The worker failed to run this job. The reason is in the worker's log."
    return Failed("sandbox_error", message)


def _find_code(error: Exception, run: RunContext) -> str | None:
    if isinstance(error, PlatformError) and error.fault == "gone" and not run.is_irrevocable:
        return "repo_unavailable"
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)


def _missing_branch(job: ClaimedJob, branch: str) -> Failed:
    message = f"The repository {job.repo!r} has no branch {branch!r}."
    if branch == job.branch:
        return Failed("forge_error", f"{message} Create a new job.")
    is_default = branch == job.default_branch
    return Failed("repo_unavailable" if is_default else "invalid_configuration", message)
