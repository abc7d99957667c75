"""What the steps of a run share: the worker's tools, and the job with its log."""

from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from agentjobs_runtime.agents.artifacts import Artifacts
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Reported
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.catalog import Catalog
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.link.models import Prices
from agentjobs_worker.link.protocol import Link
from agentjobs_worker.link.publishing import FinishedWork, RunPhases, ServiceRun, ServiceTools
from agentjobs_worker.logs.writer import LogWriter
from agentjobs_worker.run.spare_sandboxes import SpareSandboxes
from agentjobs_worker.sandbox.protocol import RunOwner, Sandbox
from agentjobs_worker.sandbox.worker_identity import WorkerIdentity
from agentjobs_worker.workspace.checkout import Workspaces

AGENT_STEP = "agent"


@dataclass(frozen=True, slots=True)
class JobTools:
    """Built once per worker."""

    link: Link
    settings: Settings
    catalog: Catalog
    service: ServiceTools
    workspaces: Workspaces
    sandbox: Sandbox
    spare_sandboxes: SpareSandboxes
    prices: Prices
    allowed: AllowList
    session: aiohttp.ClientSession
    # The CA bundle that agents are given; None for the system's.
    certificates: Path | None = None
    # Given if agents outlive their worker.
    identity: WorkerIdentity | None = None
    # None if agents run programs of this machine.
    pod_programs: PodPrograms | None = None
    # None if this worker cannot provide environments.
    environments: WorkerEnvironments | None = None

    @property
    def mirrors(self) -> Mirrors:
        return self.service.mirrors


@dataclass(slots=True)
class RunContext:
    """One run. `finished_work` is what the agent made and passed its checks; `report` is what an
    agent wrote that completes without a pull request. `artifacts` and `change` are results that are
    not stored yet."""

    job: ClaimedJob
    tools: JobTools
    slot: int
    log: LogWriter
    finished_work: FinishedWork | None = None
    report: Reported | None = None
    artifacts: Artifacts = field(default_factory=Artifacts)
    change: FinishedWork | None = None
    service: ServiceRun = field(init=False)

    def __post_init__(self) -> None:
        self.service = ServiceRun(self.job, self.tools.service, self.log)

    def owner(self, step: str) -> RunOwner:
        """The owner of a sandbox of this run."""
        return RunOwner(
            organization_id=self.job.organization_id,
            step=step,
            job_id=self.job.id,
            agent_id=self.job.agent,
            fence=self.job.fence,
            continues=self.job.continues if step == AGENT_STEP else 0,
        )

    @property
    def phases(self) -> RunPhases:
        return self.service.phases

    @property
    def link(self) -> Link:
        return self.tools.link

    @property
    def settings(self) -> Settings:
        return self.tools.settings

    @property
    def mirror(self) -> Path:
        return self.service.mirror

    async def warn(self, *messages: str) -> None:
        await self.service.warn(*messages)
