"""The responses of the service. Fields that a newer service adds are ignored."""

from typing import Any

import msgspec

FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})


class Agent(msgspec.Struct, frozen=True):
    id: str
    name: str
    available: bool
    plan_required: str


class Repo(msgspec.Struct, frozen=True):
    id: str
    full_name: str
    platform: str
    index_status: str
    line_count: int
    default_branch: str | None = None
    indexed_commit: str | None = None
    index_progress: dict[str, Any] | None = None
    index_error: str | None = None
    sync_error: str | None = None
    required_tags: list[str] = []
    max_concurrent_jobs: int | None = None

    @property
    def accepts_jobs(self) -> bool:
        return self.index_status == "ready"


class DependencyAdvisory(msgspec.Struct, frozen=True):
    """A known vulnerability of a package; `fix_version` fixes all of the package's."""

    id: str
    severity: str
    aliases: list[str] = []
    score: float | None = None
    summary: str = ""
    fix_version: str | None = None
    fix_reason: str = ""


class Dependency(msgspec.Struct, frozen=True):
    """A package in a manifest; `parents` is the path from a direct dependency to it.

    `fixture` is true for manifests of tests and examples; `imported` is `yes`, `no` or `unknown`.
    """

    ecosystem: str
    name: str
    direct: bool
    manifest: str
    purl: str = ""
    version: str | None = None
    requirement: str = ""
    scope: str = "runtime"
    parents: list[str] = []
    fixture: bool = False
    imported: str = "unknown"
    managed_by: str = ""
    advisories: list[DependencyAdvisory] = []


class JobReceipt(msgspec.Struct, frozen=True):
    """The response to an accepted job."""

    job_id: str
    status: str
    estimated_start_ms: int


class JobError(msgspec.Struct, frozen=True):
    code: str
    message: str = ""
    retryable: bool = False


class Job(msgspec.Struct, frozen=True):
    job_id: str
    status: str
    agent: str
    pr_url: str | None = None
    pr_number: int | None = None
    started_at: str | None = None
    completed_at: str | None = None
    repo: str | None = None
    ticket_id: str | None = None
    created_at: str | None = None
    attempt: int | None = None
    error: JobError | None = None
    usage: dict[str, Any] | None = None
    queue_reason: str | None = None
    verification: dict[str, Any] | None = None
    # The job that this one follows up on.
    follows: str | None = None
    # Why the service created the job by itself.
    cause: dict[str, Any] | None = None
    # open, merged or closed.
    pr_state: str | None = None
    # From the tracker: title, url, labels.
    ticket: dict[str, Any] | None = None
    # What else went wrong; no reason for the job to fail.
    warnings: list[str] = []
    # The snapshot and image that the job ran in.
    environment: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        return self.status in FINAL_STATUSES


class Event(msgspec.Struct, frozen=True):
    id: str
    event: str
    sequence: int
    timestamp: str
    payload: dict[str, Any]


class Prompt(msgspec.Struct, frozen=True):
    job_id: str
    prompt: str | None = None


class AgentList(msgspec.Struct, frozen=True):
    agents: list[Agent]


class RepoList(msgspec.Struct, frozen=True):
    repos: list[Repo]


class DependencyPage(msgspec.Struct, frozen=True):
    dependencies: list[Dependency]
    next_cursor: str | None = None
    indexed_commit: str | None = None


class JobPage(msgspec.Struct, frozen=True):
    jobs: list[Job]
    next_cursor: str | None = None


class EventList(msgspec.Struct, frozen=True):
    events: list[Event]
