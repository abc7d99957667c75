"""Jobs, and what they leave behind: steps, events, diffs and artifacts."""

from datetime import timedelta
from typing import Any, Final

import msgspec

from agentjobs_client.models.base import Model, Timestamp


class JobStatus:
    """The known values of `Job.status`; a newer service may have others."""

    QUEUED: Final = "queued"
    RUNNING: Final = "running"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    CANCELLED: Final = "cancelled"


FINAL_STATUSES: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})


class JobReceipt(Model, frozen=True):
    """The response to an accepted job."""

    job_id: str
    status: str
    estimated_start_ms: int
    # Parts of the request that had no effect.
    warnings: tuple[str, ...] = ()


class JobError(Model, frozen=True):
    code: str
    message: str = ""
    retryable: bool = False


class Usage(Model, frozen=True):
    """What the agent's models have used and cost so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0


class Verification(Model, frozen=True):
    """The check after the agent; `exit_code` is None if `stopped_by` names a limit."""

    command: str
    passed: bool
    exit_code: int | None = None
    duration_ms: int = 0
    output: str = ""
    stopped_by: str | None = None


class CausingAdvisory(Model, frozen=True):
    id: str
    severity: str = ""
    aliases: tuple[str, ...] = ()


class CausingFix(Model, frozen=True):
    """One upgrade of a package in one file."""

    ecosystem: str
    package: str
    fix_version: str
    versions: tuple[str, ...] = ()
    manifest: str = ""


class Cause(Model, frozen=True):
    """Why the service created a job by itself: vulnerable packages and their upgrades."""

    ecosystem: str
    package: str
    fix_version: str
    versions: tuple[str, ...] = ()
    manifest: str = ""
    advisories: tuple[CausingAdvisory, ...] = ()
    fixes: tuple[CausingFix, ...] = ()


class TicketDetails(Model, frozen=True):
    title: str
    url: str
    labels: tuple[str, ...] = ()


class Environment(Model, frozen=True):
    """The snapshot and image that a job ran in."""

    build_id: str | None = None
    image: str | None = None
    image_digest: str | None = None
    key: str | None = None
    prepared_ms: int = 0


class Phase(Model, frozen=True):
    """A part of what a job does: `phase` is its name, such as `queued`, `agent` or `checks`."""

    phase: str
    # The run by one worker, from 1.
    attempt: int = 1
    started_at: Timestamp | None = None
    # None for the current phase.
    ended_at: Timestamp | None = None
    elapsed_ms: int = 0
    # Why the job ran again after this phase, such as `worker_lost`.
    interruption: str | None = None


class Job(Model, frozen=True):
    job_id: str
    # See JobStatus.
    status: str
    agent: str
    pr_url: str | None = None
    pr_number: int | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    repo: str | None = None
    ticket_id: str | None = None
    created_at: Timestamp | None = None
    attempt: int | None = None
    error: JobError | None = None
    usage: Usage | None = None
    # Why a queued job cannot start.
    queue_reason: str | None = None
    verification: Verification | None = None
    # The job that this one follows up on.
    follows: str | None = None
    cause: Cause | None = None
    # open, merged or closed.
    pr_state: str | None = None
    ticket: TicketDetails | None = None
    # What else went wrong; no reason for the job to fail.
    warnings: tuple[str, ...] = ()
    environment: Environment | None = None
    branch: str | None = None
    base_commit: str | None = None
    head_commit: str | None = None
    # Only the keys that the service knows.
    config_override: dict[str, Any] | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    elapsed_ms: int | None = None
    # Listings do not contain the fields below.
    report_markdown: str | None = None
    report_json: Any = None
    estimated_start_ms: int | None = None
    # 1 is the next job of the organization.
    queue_position: int | None = None
    phases: tuple[Phase, ...] = ()

    @property
    def is_finished(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def is_completed(self) -> bool:
        return self.status == JobStatus.COMPLETED

    @property
    def elapsed(self) -> timedelta | None:
        """How long the agent has been running, or ran."""
        return None if self.elapsed_ms is None else timedelta(milliseconds=self.elapsed_ms)


class Event(Model, frozen=True):
    id: str
    event: str
    sequence: int
    timestamp: Timestamp
    payload: dict[str, Any]
    job_id: str | None = None


class EventPage(Model, frozen=True):
    """Save `next_cursor` once the events are processed, to continue there later."""

    events: tuple[Event, ...]
    next_cursor: str
    has_more: bool = False


class FileDiff(Model, frozen=True):
    """`status` is added, modified, deleted or renamed; `patch` is None for binary files."""

    path: str
    status: str
    previous_path: str | None = None
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    patch: str | None = None


class Diff(Model, frozen=True):
    job_id: str
    files: tuple[FileDiff, ...]
    base_commit: str | None = None
    head_commit: str | None = None
    truncated: bool = False


class Step(Model, frozen=True):
    """What an agent did: `kind` is read, change, command, message, model or other.

    `state` is running, succeeded, failed or unfinished.
    """

    sequence: int
    kind: str
    title: str
    state: str
    # The output of a command, what was changed in a file, or the whole message.
    detail: str = ""
    exit_code: int | None = None
    started_at: Timestamp | None = None
    duration_ms: int | None = None
    # Only for a model call.
    cost_usd: float | None = None


class Artifact(Model, frozen=True):
    name: str
    media_type: str
    size_bytes: int
    created_at: Timestamp | None = None


class Prompt(Model, frozen=True):
    job_id: str
    prompt: str | None = None
