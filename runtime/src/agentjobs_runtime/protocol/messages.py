"""The requests that a worker sends to the service, and the answers that it gets.

Every request about a job names the claim under which the worker runs it: for a claim that the
worker does not hold, the answer is `ClaimLost`.
"""

from typing import Any, Generic, TypeVar

import msgspec

from agentjobs_runtime.agents.artifacts import Artifact
from agentjobs_runtime.agents.steps import StoredStep
from agentjobs_runtime.environments.records import EnvironmentView
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.outcomes import Outcome
from agentjobs_runtime.protocol.verification import Verification
from agentjobs_runtime.protocol.worker_info import WorkerInfo

T = TypeVar("T")

JOBS_TOPIC = "jobs"
CANCEL_TOPIC = "cancel"
DISCONNECTED_TOPIC = "disconnected_repos"


class Request(msgspec.Struct, Generic[T], frozen=True, tag=True):
    """`T` is the type of the answer."""


class Renewal(msgspec.Struct, frozen=True):
    renewed: frozenset[Claim]
    cancel_requested: frozenset[Claim]


class Renew(Request[Renewal], frozen=True, kw_only=True):
    """Heartbeat and leases. A claim that is not in the answer's `renewed` is lost.

    `was_cut_off`: claims that the worker lost do not count as those of a lost worker. `sent_at` is
    the time by the worker's clock.
    """

    worker: WorkerInfo
    claims: tuple[Claim, ...]
    was_cut_off: bool
    sent_at: int


class BeginDrain(Request[None], frozen=True):
    """The worker ends when its jobs have: its slots no longer count."""


class SignOff(Request[None], frozen=True):
    """The worker has ended."""


class ClaimedJobs(msgspec.Struct, frozen=True):
    """`may_find_more`: whether another claim at once could find more jobs than this one."""

    jobs: list[ClaimedJob]
    may_find_more: bool


class ClaimJobs(Request[ClaimedJobs], frozen=True, kw_only=True):
    """At most `count` jobs, one fewer if an `expected` organization does not wait yet, and none of
    a `postponed` one. `extra_lease_seconds` extends their leases, as in `WorkerInfo`."""

    agents: list[str]
    count: int
    expected: frozenset[str] = frozenset()
    postponed: frozenset[str] = frozenset()
    extra_lease_seconds: float = 0.0


class AdoptJobs(Request[list[ClaimedJob]], frozen=True):
    """Jobs whose agents were started by `dead_workers` and are still alive on this one; the other
    jobs of these workers return to the queue."""

    dead_workers: list[str]
    count: int


class FindCancelled(Request[frozenset[Claim]], frozen=True):
    """The claims of this worker whose jobs were cancelled."""


class FindDeletedRepos(Request[set[str]], frozen=True):
    """Which of the repositories were disconnected or deleted."""

    repo_ids: set[str]


class StartJob(Request[None], frozen=True):
    """The agent starts. `prompt` None keeps that of an earlier attempt; `phases` are those of the
    job's runs, as stored."""

    claim: Claim
    base_commit: str
    prompt: str | None = None
    phases: str | None = None


class FinishJob(Request[bool], frozen=True):
    """False if the claim is lost and nothing was stored."""

    claim: Claim
    outcome: Outcome
    phases: str | None = None


class AppendLog(Request[None], frozen=True):
    """`at_ms` is when the beginning of the text was read. `may_be_stored`: it is not known whether
    an earlier call stored it."""

    claim: Claim
    text: str
    at_ms: int
    may_be_stored: bool = False


class FindLastStep(Request[int], frozen=True):
    """The number of the last step; 0 if there is none."""

    claim: Claim


class StoreSteps(Request[None], frozen=True):
    """Adds steps, or replaces those that have ended since. Steps up to `after` are those of a
    worker whose agent this one continues."""

    claim: Claim
    steps: list[StoredStep]
    after: int


class StoreArtifacts(Request[None], frozen=True):
    """Replaces those of an earlier attempt."""

    claim: Claim
    artifacts: tuple[Artifact, ...]


class RemoveResults(Request[None], frozen=True):
    """Removes what an earlier attempt left."""

    claim: Claim


class RecordPhases(Request[None], frozen=True):
    claim: Claim
    phases: str


class RecordEnvironment(Request[None], frozen=True):
    claim: Claim
    environment: EnvironmentView


class RecordVerification(Request[None], frozen=True):
    """Sent before the push: an attempt that adopts the branch needs it."""

    claim: Claim
    verification: Verification


REQUESTS: tuple[type[Request[Any]], ...] = tuple(Request.__subclasses__())
