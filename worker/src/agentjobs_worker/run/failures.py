"""How an exception ends a run: the only place that turns errors into outcomes."""

import logging
import signal

from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.mirrors.errors import (
    RepoUnavailable,
)
from agentjobs_runtime.protocol.disk_space import is_lack_of_space
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceUnavailable
from agentjobs_runtime.protocol.outcomes import (
    Abandoned,
    DiskFull,
    Failed,
    LostSandbox,
    NotReady,
    Outage,
    Outcome,
    Released,
    Unreachable,
)
from agentjobs_worker.environments.choice import EnvironmentNotReady
from agentjobs_worker.link.publishing import (
    PlatformError,
    TrackerUnavailable,
    classify_outage,
    sync_soon,
    to_failure,
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
    ImageUnavailable: "environment_failed",
    UnusableResult: "unsafe_change",
    SandboxError: "sandbox_error",
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
    failure = to_failure(error, run.job, others=_CODES)
    # Where the service keeps its files is not shown to clients.
    message = failure.message.replace(run.settings.data_dir, "…")
    return await _charge(Failed(failure.code, run.log.redact(message)), error, run)


async def _requeue(
    error: Exception, run: RunContext
) -> Unreachable | NotReady | LostSandbox | None:
    """For errors of other parts, which the job's log explains; None for all others."""
    if is_host_exhausted(error):
        reason = run.log.redact(str(error)).replace(run.settings.data_dir, "…")
        message = f"The machine of the worker is exhausted: {reason}."
        run.log.note(f"{message} The job is queued again.")
        return LostSandbox(Failed("sandbox_error", message), is_host_exhausted=True)
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


async def _charge(failure: Failed, error: Exception, run: RunContext) -> Failed | DiskFull:
    """A full disk is not the job's fault."""
    if not is_lack_of_space(error, run.settings):
        return failure
    failure = Failed(failure.code, f"The disk of the worker is full: {failure.message}")
    run.log.note(failure.message)
    return DiskFull(failure, run.settings.lost_worker_retries + 1)


async def _find_outage(error: Exception, run: RunContext) -> Outage | None:
    """What the job waits for; None if the error ends it."""
    match error:
        case RepoUnavailable() | PlatformError() if error.is_temporary:
            return classify_outage(error, run.service)
        case PlatformError() if error.fault == "unusable":
            await sync_soon(run.service)
            await run.warn(f"The job waits for its platform: {error}")
            return classify_outage(error, run.service)
        case TrackerUnavailable():
            return Outage(error.key, run.log.redact(str(error)), error.retry_after_seconds)
    return None
