"""Agents, repositories, their dependencies, vulnerabilities and pull requests."""

from typing import Any

from agentjobs_client.models.base import Model, Timestamp


class AgentLimits(Model, frozen=True):
    timeout_seconds: float | None = None
    max_cost_usd: float | None = None


class Agent(Model, frozen=True):
    id: str
    name: str
    available: bool
    plan_required: str
    description: str | None = None
    # pull_request or report.
    result: str | None = None
    # Listings do not contain the fields below.
    limits: AgentLimits | None = None
    config_override_schema: dict[str, Any] | None = None
    result_schema: dict[str, Any] | None = None


class IndexProgress(Model, frozen=True):
    done: int = 0
    # None until the files are counted.
    total: int | None = None


class Repo(Model, frozen=True):
    id: str
    full_name: str
    platform: str
    index_status: str
    line_count: int
    default_branch: str | None = None
    indexed_commit: str | None = None
    index_progress: IndexProgress | None = None
    index_error: str | None = None
    lifted_paths: tuple[str, ...] = ()
    sync_error: str | None = None
    required_tags: tuple[str, ...] = ()
    max_concurrent_jobs: int | None = None

    @property
    def accepts_jobs(self) -> bool:
        return self.index_status == "ready"


class DependencyAdvisory(Model, frozen=True):
    """A known vulnerability of a package; `fix_version` fixes all of the package's."""

    id: str
    severity: str
    aliases: tuple[str, ...] = ()
    score: float | None = None
    summary: str = ""
    fix_version: str | None = None
    fix_reason: str = ""


class Dependency(Model, frozen=True):
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
    parents: tuple[str, ...] = ()
    fixture: bool = False
    imported: str = "unknown"
    managed_by: str = ""
    advisories: tuple[DependencyAdvisory, ...] = ()


class Pull(Model, frozen=True):
    """A pull request; `state` is open, merged or closed."""

    id: str
    repo: str
    number: int
    state: str
    title: str = ""
    url: str | None = None
    draft: bool = False
    base_branch: str | None = None
    head_branch: str | None = None
    head_commit: str | None = None
    merge_commit: str | None = None
    job_id: str | None = None
    created_at: Timestamp | None = None
    merged_at: Timestamp | None = None
    closed_at: Timestamp | None = None


class Vulnerability(Model, frozen=True):
    """A vulnerability of a package in a file; `state` is open, dismissed or snoozed.

    `fix_version` is the version that no known advisory affects, None if there is none.
    """

    id: str
    repo: str
    ecosystem: str
    package: str
    version: str
    advisory_id: str
    severity: str
    state: str = "open"
    manifest: str = ""
    aliases: tuple[str, ...] = ()
    score: float | None = None
    summary: str = ""
    fix_version: str | None = None
    fix_reason: str = ""
    fixture: bool = False
    first_seen_at: Timestamp | None = None
    reason: str | None = None
    note: str = ""
    until: Timestamp | None = None
    decided_by: str | None = None
    decided_at: Timestamp | None = None
