"""Builds a worker and the tools of its jobs."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, cast

from agentjobs.app.outbound_setup import (
    build_allow_list,
    open_session,
    prepare_certificates,
)
from agentjobs.app.publishing import checkout_limits
from agentjobs.fleet.processes import program_version
from agentjobs.gateway.prices import load_prices
from agentjobs.loops.fleet_size_loop import fleet_size_loop
from agentjobs.loops.rescue_loop import rescue_loop
from agentjobs.publishing.context import ServiceTools
from agentjobs.workers.in_process import InProcessLink
from agentjobs.workers.session import WorkerSession
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.loop import running_loops
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.messages import AdoptJobs
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.environments.worker_environments import open_environments
from agentjobs_worker.link.protocol import Link
from agentjobs_worker.loops.cluster_loop import cluster_loop, network_loop
from agentjobs_worker.loops.worker import Worker, WorkerLoop
from agentjobs_worker.run.context import JobTools
from agentjobs_worker.run.spare_sandboxes import SpareSandboxes
from agentjobs_worker.sandbox.factory import open_sandbox
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxUnreachable
from agentjobs_worker.sandbox.worker_identity import WorkerIdentity
from agentjobs_worker.workspace.checkout import Workspaces

if TYPE_CHECKING:
    from agentjobs_worker.sandbox.clusters import ClusterSandbox


@contextlib.asynccontextmanager
async def running_worker(service: ServiceTools) -> AsyncIterator[Worker]:
    context = service.context
    settings = context.settings
    worker_id = new_id("wrk")
    link = InProcessLink(WorkerSession(context, worker_id))
    identity = WorkerIdentity.open(settings.data_path) if settings.uses_kubernetes else None
    with contextlib.nullcontext() if identity is None else contextlib.closing(identity):
        adopted = await _adopt_jobs(link, identity, worker_id, settings.effective_slots)
        async with open_sandbox(settings, identity) as sandbox:
            problem = "" if adopted else await _find_problem(sandbox)
            loops = [] if identity is None else _cluster_loops(cast("ClusterSandbox", sandbox))
            async with _job_tools(service, link, sandbox, identity) as tools:
                slots, version = settings.effective_slots, program_version()
                worker = Worker(tools, slots, worker_id, version, adopted, loops, problem)
                await worker.start()
                # Every process of a worker also rescues jobs, and counts the fleet.
                beside = [
                    rescue_loop(context.db, settings),
                    fleet_size_loop(context.db, worker_id),
                ]
                async with running_loops(beside):
                    yield worker


async def _adopt_jobs(
    link: Link, identity: WorkerIdentity | None, worker_id: str, slots: int
) -> list[ClaimedJob]:
    """Whose agents run in pods that are still there."""
    if identity is None:
        return []
    dead = identity.dead_workers
    identity.add(worker_id)
    jobs = await link.call(AdoptJobs(list(dead), slots))
    identity.keep_only(worker_id)
    return jobs


async def _find_problem(sandbox: Sandbox) -> str:
    """One that may end by itself; others end this process. Raises SandboxUnavailable."""
    try:
        await sandbox.check()
    except SandboxUnreachable as error:
        return str(error)
    return ""


def _cluster_loops(sandbox: "ClusterSandbox") -> list[WorkerLoop]:
    return [partial(cluster_loop, sandbox), lambda _worker: network_loop(sandbox)]


@contextlib.asynccontextmanager
async def _job_tools(
    service: ServiceTools, link: Link, sandbox: Sandbox, identity: WorkerIdentity | None
) -> AsyncIterator[JobTools]:
    context = service.context
    settings, mirrors = context.settings, service.mirrors
    certificates = prepare_certificates(settings)
    async with contextlib.AsyncExitStack() as stack:
        workspaces = _workspaces(settings, mirrors)
        stack.push_async_callback(workspaces.close)
        spare_sandboxes = SpareSandboxes(sandbox, workspaces)
        stack.push_async_callback(spare_sandboxes.close)
        session = open_session(settings)
        stack.push_async_callback(session.close)
        allowed = build_allow_list(settings)
        environments = await open_environments(
            context.db, settings, sandbox, workspaces, mirrors, allowed, certificates
        )
        if environments is not None:
            stack.push_async_callback(environments.close)
        yield JobTools(
            link=link,
            settings=settings,
            catalog=context.catalog,
            service=service,
            workspaces=workspaces,
            sandbox=sandbox,
            spare_sandboxes=spare_sandboxes,
            prices=load_prices(settings),
            allowed=allowed,
            session=session,
            certificates=certificates,
            environments=environments,
            identity=identity,
            pod_programs=_pod_programs(settings, sandbox),
        )


def _workspaces(settings: Settings, mirrors: Mirrors) -> Workspaces:
    return Workspaces(
        settings.data_path / "workspaces",
        mirrors,
        cache_max_bytes=settings.cache_max_bytes,
        limits=checkout_limits(settings),
    )


def _pod_programs(settings: Settings, sandbox: Sandbox) -> PodPrograms | None:
    if not settings.uses_kubernetes:
        return None
    return PodPrograms(cast("ClusterSandbox", sandbox), settings.effective_kubernetes_image)
