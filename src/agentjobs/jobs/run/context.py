"""What the steps of a run share: the worker's tools, and the job with its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from agentjobs.advisories.version_choice import RegistryVersionChooser
from agentjobs.agents.artifacts import Artifacts
from agentjobs.agents.image_programs import ImagePrograms
from agentjobs.connections.adapters import Platforms
from agentjobs.environments.worker_environments import WorkerEnvironments
from agentjobs.forges.protocol import Forge
from agentjobs.gateway.prices import Prices
from agentjobs.inventory.commit_summary import CommitSummaryCache
from agentjobs.inventory.published_poms import PomFetcher
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.outcomes import Reported
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.phases import RunPhases
from agentjobs.jobs.run.spare_sandboxes import SpareSandboxes
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.sandbox.protocol import RunOwner, Sandbox
from agentjobs.sandbox.worker_identity import WorkerIdentity
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.tickets.resolve import Tickets
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors

AGENT_STEP = "agent"


@dataclass(frozen=True, slots=True)
class JobTools:
    """Built once per worker."""

    context: JobsContext
    mirrors: Mirrors
    workspaces: Workspaces
    sandbox: Sandbox
    spare_sandboxes: SpareSandboxes
    # The built-in platforms, by name; `platforms` has those that are reached over a connection.
    forges: Mapping[str, Forge]
    platforms: Platforms
    tickets: Tickets
    commit_summaries: CommitSummaryCache
    keys: SealingKeys
    prices: Prices
    allowed: AllowList
    session: aiohttp.ClientSession
    chooser: RegistryVersionChooser
    poms: PomFetcher
    # The CA bundle that agents are given; None for the system's.
    certificates: Path | None = None
    # Of a worker whose agents outlive it; None for others.
    identity: WorkerIdentity | None = None
    # None if agents run programs of this machine.
    image_programs: ImagePrograms | None = None
    # None if this worker cannot provide environments.
    environments: WorkerEnvironments | None = None


@dataclass(frozen=True, slots=True)
class FinishedWork:
    """The agent's commit, made from `base`."""

    base: str
    commit: str


@dataclass(slots=True)
class RunContext:
    """One run. `finished_work` is what the agent made and passed its checks, until it is published
    as `pushed_commit`; `report` is what an agent wrote that completes without a pull request.
    `artifacts` and `change` are results that are not stored yet."""

    job: ClaimedJob
    tools: JobTools
    slot: int
    log: LogWriter
    finished_work: FinishedWork | None = None
    pushed_commit: str | None = None
    report: Reported | None = None
    artifacts: Artifacts = field(default_factory=Artifacts)
    change: FinishedWork | None = None
    phases: RunPhases = field(init=False)

    def __post_init__(self) -> None:
        self.phases = RunPhases(self.job)

    @property
    def is_irrevocable(self) -> bool:
        """The branch is pushed, so it is too late to cancel."""
        return self.pushed_commit is not None

    def owner(self, step: str) -> RunOwner:
        """Of a sandbox of this run."""
        return RunOwner(
            organization_id=self.job.organization_id,
            step=step,
            job_id=self.job.id,
            agent_id=self.job.agent,
            fence=self.job.fence,
            continues=self.job.continues if step == AGENT_STEP else 0,
        )

    @property
    def db(self) -> Database:
        return self.tools.context.db

    @property
    def settings(self) -> Settings:
        return self.tools.context.settings

    @property
    def mirror(self) -> Path:
        return self.tools.mirrors.path(self.job.repo_id)
