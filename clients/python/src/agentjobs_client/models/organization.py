"""Whose key it is, and what its organization has used."""

import msgspec

from agentjobs_client.models.base import Model, Timestamp


class Organization(Model, frozen=True):
    id: str
    name: str


class Plan(Model, frozen=True):
    name: str
    concurrent_jobs: int | None = None


class ApiKey(Model, frozen=True):
    id: str
    name: str
    scopes: tuple[str, ...] = ()
    expires_at: Timestamp | None = None


class Limits(Model, frozen=True):
    """None means that there is no limit."""

    queued_jobs: int | None = None
    open_requests: int | None = None
    rate_limit_per_second: float | None = None
    rate_limit_burst: int | None = None
    job_budget_usd: float | None = None
    daily_budget_usd: float | None = None


class Caller(Model, frozen=True):
    """The response of `me()`."""

    organization: Organization
    plan: Plan
    key: ApiKey
    limits: Limits = Limits()


class JobCounts(Model, frozen=True):
    """The jobs that were created in the period, by their current status."""

    total: int = 0
    queued: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class UsageTotal(Model, frozen=True):
    jobs: JobCounts = JobCounts()
    agent_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class UsageGroup(UsageTotal, frozen=True, kw_only=True):
    """`key` is the agent, the repository or the day, as `group_by` says."""

    key: str


class UsageReport(Model, frozen=True):
    since: Timestamp = msgspec.field(name="from")
    until: Timestamp = msgspec.field(name="to")
    total: UsageTotal
    groups: tuple[UsageGroup, ...] = ()
