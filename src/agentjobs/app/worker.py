"""Builds a worker and the tools of its jobs."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from agentjobs.advisories.registries.registry import Registry
from agentjobs.advisories.version_choice import RegistryVersionChooser
from agentjobs.agents.image_programs import ImagePrograms
from agentjobs.app.outbound_setup import allowed_of, certificates_of, platforms_of, session_of
from agentjobs.app.worker_environments import environments_of
from agentjobs.gateway.prices import load_prices
from agentjobs.identifiers import new_id
from agentjobs.inventory.commit_summary import CommitSummaryCache
from agentjobs.inventory.indexing import pom_fetcher
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.queue.adoption import adopt_jobs
from agentjobs.jobs.queue.claim import ClaimedJob, may_write_branch
from agentjobs.jobs.run.context import JobTools
from agentjobs.jobs.run.spare_sandboxes import SpareSandboxes
from agentjobs.loops.network_loop import network_loop
from agentjobs.loops.worker import Worker
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.pulls.local_forge import LocalForge
from agentjobs.sandbox.factory import open_sandbox
from agentjobs.sandbox.protocol import Sandbox
from agentjobs.sandbox.worker_identity import WorkerIdentity
from agentjobs.tickets.resolve import Tickets
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.checkout_limits import MIB, CheckoutLimits
from agentjobs.workspace.mirror import Mirrors

if TYPE_CHECKING:
    from agentjobs.sandbox.kubernetes.sandbox import KubernetesSandbox


@contextlib.asynccontextmanager
async def running_worker(context: JobsContext, git_url: str) -> AsyncIterator[Worker]:
    settings = context.settings
    worker_id = new_id("wrk")
    identity = WorkerIdentity.open(settings.data_path) if settings.uses_kubernetes else None
    with contextlib.nullcontext() if identity is None else contextlib.closing(identity):
        adopted = await _adopt_jobs(context, identity, worker_id)
        async with open_sandbox(settings, identity) as sandbox:
            if not adopted:
                await sandbox.check()
            async with _worker(context, git_url, worker_id, sandbox, identity, adopted) as worker:
                yield worker


async def _adopt_jobs(
    context: JobsContext, identity: WorkerIdentity | None, worker_id: str
) -> list[ClaimedJob]:
    """Whose agents run in pods that are still there."""
    if identity is None:
        return []
    dead = identity.dead_workers
    identity.add(worker_id)
    settings = context.settings
    jobs = await adopt_jobs(
        context.db,
        worker_id,
        dead,
        count=settings.effective_slots,
        lease_seconds=settings.lease_seconds,
    )
    identity.keep_only(worker_id)
    return jobs


@contextlib.asynccontextmanager
async def _worker(
    context: JobsContext,
    git_url: str,
    worker_id: str,
    sandbox: Sandbox,
    identity: WorkerIdentity | None,
    adopted: list[ClaimedJob],
) -> AsyncIterator[Worker]:
    settings = context.settings
    mirrors = Mirrors(settings.data_path / "mirrors")
    public_url = settings.effective_public_url
    certificates = certificates_of(settings)
    forge = LocalForge(context.db, git_url, public_url, may_write_branch, certificates)
    checkout_limits = CheckoutLimits(
        size_bytes=settings.limit_checkout_mib * MIB, files=settings.limit_checkout_files
    )
    workspaces = Workspaces(
        settings.data_path / "workspaces",
        mirrors,
        cache_max_bytes=settings.cache_max_bytes,
        limits=checkout_limits,
    )
    spare_sandboxes = SpareSandboxes(sandbox, workspaces)
    session = session_of(settings)
    keys = SealingKeys.load(settings)
    platforms = platforms_of(context.db, settings, session, certificates)
    registry = Registry(settings, session)
    allowed = allowed_of(settings)
    environments = await environments_of(
        context, sandbox, workspaces, mirrors, session, allowed, certificates
    )
    try:
        tools = JobTools(
            context=context,
            mirrors=mirrors,
            workspaces=workspaces,
            sandbox=sandbox,
            spare_sandboxes=spare_sandboxes,
            forges={forge.platform: forge},
            platforms=platforms,
            tickets=Tickets(context.db, keys, session, platforms),
            commit_summaries=CommitSummaryCache(checkout_limits),
            keys=keys,
            prices=load_prices(settings),
            allowed=allowed,
            session=session,
            chooser=RegistryVersionChooser(registry, settings.minimum_release_age_days),
            poms=pom_fetcher(settings, registry),
            certificates=certificates,
            environments=environments,
            identity=identity,
            image_programs=None
            if identity is None
            else ImagePrograms(sandbox, settings.effective_kubernetes_image),
        )
        loops = [] if identity is None else [network_loop(cast("KubernetesSandbox", sandbox))]
        worker = Worker(tools, settings.effective_slots, worker_id, adopted, loops)
        await worker.start()
        yield worker
    finally:
        if environments is not None:
            await environments.close()
        await registry.close()
        await session.close()
        await spare_sandboxes.close()
        await workspaces.close()
