"""A harness for tests of jobs: organizations, ready repositories and agents, without git."""

from dataclasses import dataclass, field
from typing import Any

from agentjobs.jobs.model import CreateJobRequest, JobView
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.views.queries import get_job, list_events
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.organizations.organizations import create_organization
from agentjobs.store.database import Database, Transaction
from agentjobs.workers.in_process import InProcessLink
from agentjobs.workers.session import WorkerSession
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.catalog import Catalog

AGENTS = ["fixer", "pro-fixer"]


def an_agent(agent_id: str, plan_required: str = "free") -> Agent:
    return Agent(
        id=agent_id,
        name=agent_id.title(),
        plan_required=plan_required,
        command=("true",),
        timeout_seconds=600,
        environment={},
        network=(),
    )


async def claim_job(context: JobsContext, worker_id: str, agents: list[str]) -> ClaimedJob | None:
    jobs = await Claimer(context, worker_id).claim(agents, 1)
    return jobs[0] if jobs else None


@dataclass
class JobHarness:
    db: Database
    context: JobsContext
    callers: dict[str, Caller] = field(default_factory=dict)

    async def organization(self, name: str = "acme", plan: str = "enterprise") -> Caller:
        """An organization with a ready repository `<name>/shop`."""
        organization = await create_organization(self.db, self.context.plans, name, plan)
        created = await create_key(self.db, name)
        caller = await ApiKeyAuthenticator(self.db).authenticate(created.key)
        assert caller is not None
        await self.db.transact(insert_repo, organization.id, f"{name}/shop", "ready")
        self.callers[name] = caller
        return caller

    async def job(self, caller: Caller, **fields: Any) -> str:
        body = CreateJobRequest(
            **{"repo": f"{caller.organization}/shop", "agent": "fixer", **fields}
        )
        return (await create_job(self.context, caller, body)).receipt.job_id

    async def same_request(self, caller: Caller, key: str, body_hash: bytes = b"1") -> Any:
        body = CreateJobRequest(f"{caller.organization}/shop", "fixer")
        claim = IdempotencyClaim(key, body_hash)
        return await create_job(self.context, caller, body, idempotency=claim)

    async def claim(self, worker_id: str = "wrk_a") -> ClaimedJob:
        job = await claim_job(self.context, worker_id, AGENTS)
        assert job is not None
        return job

    async def nothing_to_claim(self) -> bool:
        return await claim_job(self.context, "wrk_b", AGENTS) is None

    async def view(self, caller: Caller, job_id: str) -> JobView:
        return await get_job(self.context, caller.organization_id, job_id)

    async def events(self, caller: Caller, job_id: str) -> list[str]:
        events = await list_events(self.db, caller.organization_id, job_id)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        return [event.event for event in events]

    def link(self, *jobs: ClaimedJob, worker_id: str = "wrk_a") -> InProcessLink:
        """The connection of a worker that holds the claims of these jobs."""
        session = WorkerSession(self.context, worker_id)
        session.assign(jobs)
        return InProcessLink(session)

    async def expire_leases(self) -> None:
        await self.db.transact(_expire)


def job_harness(db: Database, settings: Settings) -> JobHarness:
    catalog = Catalog([an_agent("fixer"), an_agent("pro-fixer", "pro")])
    return JobHarness(db, JobsContext(db, settings, catalog))


async def insert_repo(
    tx: Transaction, organization_id: str, full_name: str, index_status: str
) -> None:
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at) VALUES (:id, :organization_id, :full_name,"
        " 'local', '', 'main', :head_commit, :now)",
        id=(repo_id := new_id("repo")),
        organization_id=organization_id,
        full_name=full_name,
        head_commit="0" * 40,
        now=now_ms(),
    )
    await tx.execute(
        "INSERT INTO repo_index (repo_id, status) VALUES (:id, :status)",
        id=repo_id,
        status=index_status,
    )


async def _expire(tx: Transaction) -> None:
    await tx.execute("UPDATE job_queue SET lease_expires_at = 1 WHERE lease_owner IS NOT NULL")
