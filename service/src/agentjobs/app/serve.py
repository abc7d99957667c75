"""Runs the HTTP server and the background loops of `serve` and `up`."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Protocol

import aiohttp

from agentjobs.advisories.registries.registry import Registry
from agentjobs.app.outbound_setup import build_platforms, open_session, prepare_certificates
from agentjobs.app.signals import Stop
from agentjobs.connections.adapters import Platforms
from agentjobs.fleet import processes
from agentjobs.fleet.processes import ProcessInfo, Role, hash_process_id, this_process
from agentjobs.inventory.indexing import pom_fetcher
from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.jobs.operations.open_pulls import OpenPullReader
from agentjobs.jobs.public_address import follow_public_address
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops.advisory_loop import AdvisoryLoop
from agentjobs.loops.index_loop import IndexLoop
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.loops.prune_loop import prune_loop
from agentjobs.loops.role_loop import RoleLoop
from agentjobs.loops.scan_loop import RescanLoop, ScanLoop
from agentjobs.loops.status_loop import StatusLoop
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.throttle import sign_in_warnings
from agentjobs.platform_sync.hook_removal import remove_due_hooks
from agentjobs.platform_sync.statuses import StatusReporter
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.pulls.branches import sweep_branches
from agentjobs.pulls.maintenance import tidy_repositories
from agentjobs.pulls.pushes import record_all_heads
from agentjobs.store.database import StoreUnavailable
from agentjobs.web.application import build_application, build_metrics_application
from agentjobs.web.context import WebContext
from agentjobs.web.metrics.registry import Metrics
from agentjobs.web.server import Server, bind, server_for
from agentjobs_dependencies.version_choice import RegistryVersionChooser
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.loop import Loop, PeriodicLoop, run_loops
from agentjobs_worker.loops.disk_loop import reserve_loop


class OnReady(Protocol):
    """Called with the API's URL and the sign-in link just before the first request is served."""

    def __call__(self, base_url: str, sign_in_link: str | None, /) -> None: ...


_log = logging.getLogger(__name__)
_LAST_USED_SECONDS = 30.0
_HEADS_SECONDS = 300.0
_IMPORTS_SECONDS = 30.0
_BRANCHES_SECONDS = 60.0
_HOOK_REMOVAL_SECONDS = 15.0
_MAINTENANCE_SECONDS = 6 * 3600.0
_SERVER_START_SECONDS = 0.005
# Loops that share their work, so that one organization cannot keep the others waiting.
_INDEX_LOOPS = 2
_SCAN_LOOPS = 2
_STATUS_LOOPS = 4


@contextlib.asynccontextmanager
async def serving(
    jobs: JobsContext,
    listener: socket.socket,
    stop: Stop,
    metrics: Metrics,
    on_ready: OnReady,
    role: Role,
    sign_in_link: str | None = None,
) -> AsyncIterator[WebContext]:
    """Serves the API while the block runs. Continues to serve while a worker drains."""
    certificates = prepare_certificates(jobs.settings)
    context = WebContext(
        jobs,
        ApiKeyAuthenticator(jobs.db),
        certificates,
        stop.requested,
        metrics=metrics,
    )
    await context.repositories.check()
    await follow_public_address(jobs.db, jobs.settings)
    process = this_process(role, jobs.settings)
    context.instance = hash_process_id(process.id)
    for warning in sign_in_warnings(jobs.settings):
        _log.warning("%s", warning)
    served = asyncio.Event()
    async with (
        open_session(jobs.settings) as session,
        asyncio.TaskGroup() as group,
        metrics_server(context),
    ):
        context.platforms = build_platforms(jobs.db, jobs.settings, session, certificates)
        loops = [
            *_serving_loops(context, process, session),
            PlatformLoop(
                jobs.db,
                PlatformSync(jobs, context.platforms, context.keys),
                context.repositories_space,
                is_able=lambda: context.repositories.is_usable,
            ),
            *_status_loops(jobs, context.platforms),
            RoleLoop(
                jobs.db,
                "webhooks of platforms",
                _HOOK_REMOVAL_SECONDS,
                partial(remove_due_hooks, jobs.db, context.platforms),
            ),
            _heartbeat_loop(context, process),
        ]
        server = server_for(build_application(context))
        # The socket already listens; early connections wait until the server starts.
        on_ready(f"{jobs.settings.effective_public_url}/v1", sign_in_link)
        serving = group.create_task(server.serve(sockets=[listener]))
        await _wait_until_started(server, serving)
        group.create_task(run_loops(loops, served))
        try:
            yield context
        finally:
            served.set()
            server.stop()
            with contextlib.suppress(StoreUnavailable):
                await context.authenticator.flush_last_used()
                await processes.sign_off(jobs.db, process.id)
            await context.close()


@contextlib.asynccontextmanager
async def metrics_server(context: WebContext) -> AsyncIterator[None]:
    """Serves health and metrics on their own address, if there is one."""
    address = context.settings.metrics_address
    if address is None:
        yield
        return
    with contextlib.closing(bind(*address, chosen_by="AGENTJOBS_METRICS_BIND")) as listener:
        server = server_for(build_metrics_application(context))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.stop()
            await serving


async def _wait_until_started(server: Server, serving: asyncio.Task[None]) -> None:
    # uvicorn offers no event to wait on.
    while not server.started and not serving.done():  # noqa: ASYNC110
        await asyncio.sleep(_SERVER_START_SECONDS)


def _heartbeat_loop(context: WebContext, process: ProcessInfo) -> PeriodicLoop:
    repositories = context.repositories

    async def beat() -> None:
        await repositories.check()
        process.repositories_problem = repositories.problem
        process.disk_free_bytes = process.disk_total_bytes = None
        # The directory may lie on a server that is away.
        with contextlib.suppress(OSError):
            if repositories.is_usable:
                space = await asyncio.to_thread(context.repositories_space.measure)
                process.disk_free_bytes, process.disk_total_bytes = space
        await processes.record_heartbeat(context.db, process)

    return PeriodicLoop("heartbeat", processes.HEARTBEAT_SECONDS, beat)


def _serving_loops(
    context: WebContext, process: ProcessInfo, session: aiohttp.ClientSession
) -> list[Loop]:
    """The loops of one process; roles are performed by one process of the fleet at a time."""
    db, settings = context.db, context.settings
    registry = Registry(settings, session)
    open_pulls = OpenPullReader(db, settings, context.platforms)
    index_turns, scan_turns = FairTurns(), FairTurns()
    index_loops = (
        IndexLoop(
            db,
            settings,
            is_able=lambda: context.repositories.is_usable,
            poms=pom_fetcher(settings, registry),
            turns=index_turns,
        )
        for _ in range(_INDEX_LOOPS)
    )
    scan_loops = (
        ScanLoop(
            db,
            RegistryVersionChooser(registry, settings.minimum_release_age_days),
            lambda repo_id: reconcile(context.jobs, repo_id, open_pulls),
            scan_turns,
        )
        for _ in range(_SCAN_LOOPS)
    )
    return [
        *index_loops,
        AdvisoryLoop(db, settings, session),
        *scan_loops,
        RescanLoop(db, process.id),
        PeriodicLoop("keys", _LAST_USED_SECONDS, context.authenticator.flush_last_used),
        prune_loop(db, settings),
        reserve_loop(context.free_space),
        *_repository_roles(context),
    ]


def _status_loops(jobs: JobsContext, platforms: Platforms) -> list[Loop]:
    if not jobs.settings.commit_statuses:
        return []
    reporter = StatusReporter(jobs.db, jobs.settings, platforms)
    return [StatusLoop(jobs.db, reporter) for _ in range(_STATUS_LOOPS)]


def _repository_roles(context: WebContext) -> list[Loop]:
    """Roles for processes that can reach the bare repositories."""
    db, root = context.db, context.settings.repositories_path

    def is_able() -> bool:
        return context.repositories.is_usable

    async def sweep(*, only_cancelled: bool = True) -> None:
        if context.settings.delete_branches:
            await sweep_branches(db, root, only_cancelled=only_cancelled)

    async def maintain() -> None:
        await sweep(only_cancelled=False)
        await tidy_repositories(db, root)

    return [
        # At start too: this process may have crashed between a push and its record.
        RoleLoop(
            db,
            "heads",
            _HEADS_SECONDS,
            lambda: record_all_heads(db, root),
            at_start=True,
            is_able=is_able,
        ),
        RoleLoop(db, "imports", _IMPORTS_SECONDS, context.imports.recover, is_able=is_able),
        RoleLoop(db, "cancelled branches", _BRANCHES_SECONDS, sweep, is_able=is_able),
        RoleLoop(
            db,
            "repositories",
            _MAINTENANCE_SECONDS,
            maintain,
            first_after_seconds=_MAINTENANCE_SECONDS / 10,
            is_able=is_able,
        ),
    ]
