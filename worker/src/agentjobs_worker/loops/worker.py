"""A worker: starts its loops together and drains them in order."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence

from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.loop import Loop, PeriodicLoop, keep_alive, run_loops, wait_for_first
from agentjobs_runtime.open_files import raise_open_files_limit
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ServiceError, ServiceUnavailable
from agentjobs_runtime.protocol.messages import BeginDrain, SignOff
from agentjobs_runtime.protocol.outcomes import Released
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings.digest import configuration_digest
from agentjobs_worker.loops.cancel_loop import CancelLoop
from agentjobs_worker.loops.deleted_repos_loop import DeletedReposLoop, RepoCache
from agentjobs_worker.loops.disk_loop import disk_loop
from agentjobs_worker.loops.job_loop import JobLoop
from agentjobs_worker.loops.lease_loop import LeaseLoop
from agentjobs_worker.loops.readiness_loop import find_ready_agents, readiness_loop
from agentjobs_worker.loops.requested_builds import EnvironmentLoop, RequestedBuilds
from agentjobs_worker.run.context import JobTools
from agentjobs_worker.sandbox.protocol import SandboxUnavailable

_CLEANUP_SECONDS = 6 * 3600.0
_CHECK_AGAIN_SECONDS = 10.0
_log = logging.getLogger(__name__)


# Stores its findings in the registration of the worker.
WorkerLoop = Callable[[WorkerInfo], Loop]


class Worker:
    """`adopted` are jobs whose agents a dead worker started, and which wait for this one. With
    them, or with a `sandbox_problem`, the sandbox is still to be checked. `loops` run besides the
    usual ones."""

    def __init__(
        self,
        tools: JobTools,
        slots: int,
        worker_id: str,
        version: str,
        adopted: Sequence[ClaimedJob] = (),
        loops: Sequence[WorkerLoop] = (),
        sandbox_problem: str = "",
    ) -> None:
        self._tools = tools
        self._adopted = adopted
        self._link = tools.link
        self._settings = tools.settings
        self._info = WorkerInfo(
            worker_id,
            socket.gethostname(),
            slots,
            agents=[],
            version=version,
            configuration_digest=configuration_digest(self._settings),
            tags=self._settings.worker_tags,
            location=tools.environments.location if tools.environments else "",
            sandbox_problem=sandbox_problem,
        )
        self._loops = [loop(self._info) for loop in loops]
        self._is_checked = not adopted and not sandbox_problem
        self._free_space = FreeSpace(self._settings.data_path, self._settings.disk_floor_mib)
        self._jobs = JobLoop(tools, self._info, self._free_space)
        self._leases = LeaseLoop(self._link, self._settings, self._info, self._jobs)

    @property
    def slots(self) -> int:
        return self._info.slots

    @property
    def busy_slots(self) -> int:
        return len(self._jobs.active_jobs)

    @property
    def failed_renewals(self) -> int:
        return self._leases.failed_renewals

    @property
    def lost_leases(self) -> int:
        return self._leases.lost_leases

    @property
    def problem(self) -> str:
        """Why the worker starts no jobs now, as a sentence; empty if it does."""
        problem = self._info.sandbox_problem
        return f"This worker starts no jobs: {problem}." if problem else ""

    async def start(self) -> None:
        """Register the worker, so that the queue counts its slots."""
        raise_open_files_limit()
        if self._is_checked:
            await self._prepare()
        elif problem := self._info.sandbox_problem:
            self._report(problem)
        await self._leases.register()
        fields = {"worker_id": self._info.id, "slots": self._info.slots}
        _log.info("worker ready", extra={"fields": {**fields, "agents": self._info.agents}})

    async def _prepare(self) -> None:
        """Remove what dead processes left, and find out which agents can run here."""
        await self._tools.workspaces.sweep()
        if self._tools.environments is not None:
            await self._tools.environments.start()
        await find_ready_agents(
            self._tools.catalog,
            self._info,
            in_sandbox=self._settings.has_sandbox,
            image=self._tools.pod_programs,
        )

    async def _check_and_prepare(self) -> None:
        """Adopted agents cannot wait for it: they end themselves if no worker appears."""
        while True:
            try:
                await self._tools.sandbox.check()
                break
            except SandboxUnavailable as error:
                self._report(str(error))
                await asyncio.sleep(_CHECK_AGAIN_SECONDS)
        await self._prepare()
        self._info.sandbox_problem = ""

    def _report(self, problem: str) -> None:
        """Register without agents: which of them can run is not known yet."""
        _log.error("this worker starts no jobs: %s", problem)
        self._info.agents = [agent.id for agent in self._tools.catalog.all()]
        self._info.sandbox_problem = problem

    async def run(self, stopping: asyncio.Event, stop_now: asyncio.Event) -> None:
        """Work until `stopping`, then drain and keep renewing leases; `stop_now` ends the grace."""
        drained = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            until_stopped: list[Loop] = [
                self._cache_cleanup,
                self._deleted_repos,
                self._readiness,
                self._disk,
                *self._loops,
            ]
            if self._tools.environments is not None:
                requested = RequestedBuilds(self._tools, self._tools.environments)
                places = self._tools.environments.tools.slots
                until_stopped += [EnvironmentLoop(requested) for _ in places]
            until_drained: list[Loop] = [self._leases, CancelLoop(self._link, self._jobs)]
            group.create_task(run_loops(until_drained, drained))
            if self._adopted:
                _log.info("%d jobs of a dead worker continue", len(self._adopted))
                self._jobs.adopt(self._adopted)
            if not self._is_checked:
                preparing = keep_alive("start", self._check_and_prepare)
                await wait_for_first(stopping.wait(), preparing)
            group.create_task(run_loops(until_stopped, stopping))
            await keep_alive(self._jobs.name, lambda: self._jobs.run(stopping))
            if self._jobs.active_jobs:
                group.create_task(self._begin_drain())
            await self._drain(stop_now)
            drained.set()
        try:
            await self._link.call(SignOff())
        except ServiceUnavailable as error:
            _log.warning("could not sign off: %s", error)

    @property
    def _readiness(self) -> PeriodicLoop:
        return readiness_loop(
            self._tools.catalog,
            self._info,
            in_sandbox=self._settings.has_sandbox,
            image=self._tools.pod_programs,
        )

    @property
    def _disk(self) -> PeriodicLoop:
        return disk_loop(self._free_space, self._info, self._tools.workspaces)

    @property
    def _cache_cleanup(self) -> PeriodicLoop:
        return PeriodicLoop("caches", _CLEANUP_SECONDS, self._clean_caches, first_after_seconds=600)

    @property
    def _deleted_repos(self) -> DeletedReposLoop:
        caches: list[RepoCache] = [self._tools.workspaces]
        if self._tools.environments is not None:
            caches.append(self._tools.environments)
        return DeletedReposLoop(self._link, caches)

    async def _clean_caches(self) -> None:
        await self._tools.mirrors.collect_garbage()
        await self._tools.workspaces.trim_cache()
        if self._tools.environments is not None:
            await self._tools.environments.reconcile()
            await self._tools.environments.trim()

    async def _begin_drain(self) -> None:
        # Only others see it; the drain itself must not end because of it.
        with contextlib.suppress(ServiceError):
            await self._link.call(BeginDrain())

    async def _drain(self, stop_now: asyncio.Event) -> None:
        grace = 0.0 if stop_now.is_set() else self._settings.drain_grace_seconds
        waiters = {
            asyncio.create_task(stop_now.wait()),
            asyncio.create_task(self._jobs.wait_until_idle()),
        }
        await asyncio.wait(waiters, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()
        self._jobs.stop_all(Released())
        await self._jobs.wait_until_idle()
