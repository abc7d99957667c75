"""How a run of a job can end, as values: returned by `run`, stored by `queue/finish`."""

from typing import Any

import msgspec

from agentjobs_runtime.clock import DAY_MS

# A job whose platform is unreachable for longer fails.
MAX_OUTAGE_MS = DAY_MS


class Outage(msgspec.Struct, frozen=True):
    """A platform or tracker that does not respond; `retry_after_seconds` is what it asked for."""

    key: str
    message: str
    retry_after_seconds: float = 0.0


class EnvironmentHold(msgspec.Struct, frozen=True):
    """Jobs wait; only `location` may claim them before. None: no worker may.

    One for a build has its `request_key`, and holds nothing once the build has ended.
    """

    key: str
    repo_id: str
    location: str | None
    hold_ms: int
    request_key: str | None = None


class KeptWork(msgspec.Struct, frozen=True):
    """The commit, made from `base_commit`; its message has the text of the pull request."""

    base_commit: str
    head_commit: str
    bundle: bytes


class JobReport(msgspec.Struct, frozen=True):
    """`result` is JSON that fits the agent's schema; None if the agent has none."""

    markdown: str
    result: str | None = None

    def decode_result(self) -> Any:
        return None if self.result is None else msgspec.json.decode(self.result)


class Completed(msgspec.Struct, frozen=True, tag=True):
    pr_url: str
    pr_number: int
    head_commit: str
    draft: bool


class Reported(msgspec.Struct, frozen=True, tag=True):
    """The job completes with a report, without a pull request."""

    report: JobReport


class Failed(msgspec.Struct, frozen=True, tag=True):
    code: str
    message: str


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """The client cancelled the job."""


class Released(msgspec.Struct, frozen=True, tag=True):
    """The job is requeued without spending an attempt: the worker drains, or its database is
    unavailable."""


class Unreachable(msgspec.Struct, frozen=True, tag=True):
    """The platform does not respond: the job waits for it, without spending an attempt."""

    outage: Outage


class NotReady(msgspec.Struct, frozen=True, tag=True):
    """The environment is not on this worker: the job waits for it, without spending an attempt."""

    hold: EnvironmentHold


class DiskFull(msgspec.Struct, frozen=True, tag=True):
    """The worker has no space for the run: the job is requeued, and fails as the run did once its
    agent was started `max_attempts` times."""

    failure: Failed
    max_attempts: int


class LostSandbox(msgspec.Struct, frozen=True, tag=True):
    """Something outside ended the sandbox, such as a node that failed: the job is requeued without
    spending an attempt, and fails as the run did after too many of them."""

    failure: Failed
    # The worker's machine has no processes or memory for it now.
    is_host_exhausted: bool = False


class Kept(msgspec.Struct, frozen=True, tag=True):
    """The agent's work is done: the service keeps it until it is published."""

    work: KeptWork


class Abandoned(msgspec.Struct, frozen=True, tag=True):
    """The claim is lost, so another worker decides the outcome. Nothing is stored."""


Interrupted = Released | Unreachable | NotReady | DiskFull | LostSandbox
"""Runs that end without a result."""

Outcome = Completed | Reported | Kept | Failed | Cancelled | Interrupted | Abandoned


def describe_failure(outcome: Outcome) -> str | None:
    """Why a run did not complete its job, in the words that the job's user sees."""
    match outcome:
        case (
            Failed(code, message)
            | DiskFull(Failed(code, message))
            | LostSandbox(failure=Failed(code, message))
        ):
            return f"{code}: {message}"
        case Unreachable(outage):
            return outage.message
    return None


class EnvironmentFailed(Exception):
    """The repository or its image is at fault: the job fails. The message says what to do."""


class JobFailed(Exception):
    """Raised by a step of a run to fail the job with a code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LimitExceeded(JobFailed):
    """The agent used more than it may, such as the space of the worker's disk."""
