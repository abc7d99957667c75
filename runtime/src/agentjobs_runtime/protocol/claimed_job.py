"""A job as its worker knows it while it holds the claim."""

from typing import Any

import msgspec

from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.protocol.cause import Cause
from agentjobs_runtime.protocol.verification import Verification

# The key of outages of the git server of this service.
LOCAL = "local"
# Before the ID of a repository whose platform does not accept finished work.
REFUSED = "refused:"

# A job's identifier and the fence of one claim on it.
Claim = tuple[str, int]


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job claimed by one worker. `fence` identifies the claim, `credential` opens its branch."""

    id: str
    organization_id: str
    organization: str
    repo_id: str
    repo: str
    repo_is_connected: bool
    platform: str
    default_branch: str
    repo_head: str
    agent: str
    ticket_id: str | None
    config_override: dict[str, Any]
    fence: int
    attempt: int
    was_started_before: bool
    branch: str
    credential: str
    lifted_paths: tuple[str, ...] = ()
    daily_budget_nanousd: int | None = None
    job_budget_nanousd: int | None = None
    # The result of an earlier attempt that pushed its branch.
    verification: Verification | None = None
    # The job whose branch and pull request a follow-up continues.
    follows: str | None = None
    # Why the service created the job itself.
    cause: Cause | None = None
    # The connection and the identifier on the platform; None and empty for `local`.
    connection_id: str | None = None
    external_id: str = ""
    created_at: int = 0
    # When the finished work of an earlier attempt was kept, which only has to be published.
    kept_at: int | None = None
    # Whether the platform or the tracker did not respond at the last attempt.
    has_outage: bool = False
    # The key of the tracker that did not respond.
    waits_for: str | None = None
    # The environment that the job has waited for.
    environment_key: str | None = None
    # An API key, a user, or a login such as `github:ada`.
    created_by: str | None = None
    queued_at: int = 0
    # The trace of the request that created the job.
    traceparent: str | None = None
    # The base commit of a job whose agent already runs: a dead worker started it.
    adopted_base: str | None = None
    # The phases of its earlier runs, as stored.
    phases: str | None = None
    # By the database's clock.
    claimed_at: int = msgspec.field(default_factory=now_ms)

    @property
    def base_branch(self) -> str:
        if self.follows is not None:
            return self.branch
        return str(self.config_override.get("base_branch") or self.default_branch)

    @property
    def platform_key(self) -> str:
        """Identifies the platform's outages."""
        return self.connection_id or LOCAL

    @property
    def platform_keys(self) -> tuple[str, str]:
        """The keys of its platform and of its repository alone."""
        return self.platform_key, self.repo_id

    @property
    def outage_keys(self) -> tuple[str, ...]:
        keys = (self.waits_for, None if self.kept_at is None else self.refusal_key)
        return (*self.platform_keys, *(key for key in keys if key is not None))

    @property
    def refusal_key(self) -> str:
        """Identifies that the platform does not accept finished work of the repository."""
        return f"{REFUSED}{self.repo_id}"

    @property
    def is_adopted(self) -> bool:
        return self.adopted_base is not None

    @property
    def continues(self) -> int:
        """The fence of the claim whose agent this one continues; 0 if it starts an agent."""
        return self.fence - 1 if self.is_adopted else 0

    @property
    def claim(self) -> Claim:
        return self.id, self.fence
