"""Starts and stops the services of `up`, `serve` and `worker`."""

import contextlib
import gc
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import msgspec

from agentjobs.app.outbound_setup import prepare_certificates
from agentjobs.app.publishing import open_service_tools, publishing
from agentjobs.app.serve import OnReady, metrics_server, serving
from agentjobs.app.signals import Stop
from agentjobs.app.worker import running_worker
from agentjobs.build_info import describe_build
from agentjobs.environments.setup_network import check_setup_network
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops.delivery_loop import run_sender
from agentjobs.loops.fleet_size_loop import fleet_size_loop
from agentjobs.loops.rescue_loop import rescue_loop
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION, ensure_default
from agentjobs.organizations.sign_in_links import create_link
from agentjobs.organizations.users import ensure_administrator
from agentjobs.store.opening import DEFAULT_POOL_SIZE, open_database
from agentjobs.web.context import WebContext
from agentjobs.web.metrics.process import AttemptMetrics, DiskMetrics, WorkerMetrics
from agentjobs.web.metrics.registry import Metrics, ServiceMetrics
from agentjobs.web.server import bind
from agentjobs.webhooks.allowed_addresses import (
    configured_allow_list,
    may_allow_loopback,
    store_allow_list,
)
from agentjobs.worker_part.agents import build_catalog
from agentjobs_runtime.git.limits import GitLimits, set_git_limits
from agentjobs_runtime.git.version import check_git
from agentjobs_runtime.logging_setup import LineHandler, configure_logging
from agentjobs_runtime.loop import run_loops
from agentjobs_runtime.loop_monitor import LoopMonitor
from agentjobs_runtime.settings import (
    Settings,
    is_loopback,
    prepare_data_directory,
    unknown_variables,
)
from agentjobs_runtime.tracing.exporting import exporting_traces
from agentjobs_worker.loops.worker import Worker

WORKER_POOL_SIZE = 2
"""Beside a connection for the leases and one for notifications, however many slots there are."""

_GC_ALLOCATIONS = 20_000
"""Requests leave no circular references, so that frequent collections find nothing."""

_log = logging.getLogger(__name__)


async def run_up(
    settings: Settings, on_ready: OnReady, log_handler: LineHandler | None = None
) -> None:
    """API and worker in one process, until a signal stops them."""
    with contextlib.closing(bind(settings.host, settings.port)) as listener:
        bound = _with_bound_port(settings, listener)
        async with (
            _open_context(bound, log_handler, migrate=True) as (context, stop, metrics),
            _deliver_webhooks(context, stop, metrics, is_laptop=_is_laptop(settings)),
            open_service_tools(context, context.settings.own_url) as tools,
            running_worker(tools) as worker,
            serving(
                context, listener, stop, metrics, on_ready, "up", await _sign_in_link(context)
            ) as web,
            publishing(tools, web, stop.force_stop, has_worker=True),
        ):
            metrics.registry.register(WorkerMetrics(worker))
            await worker.run(stop.requested, stop.force_stop)


async def run_serve(settings: Settings, on_ready: OnReady) -> None:
    with contextlib.closing(bind(settings.host, settings.port)) as listener:
        async with _open_context(_with_bound_port(settings, listener)) as (context, stop, metrics):
            rescue = rescue_loop(context.db, context.settings)
            async with (
                _deliver_webhooks(context, stop, metrics),
                open_service_tools(context, context.settings.own_url) as tools,
                serving(context, listener, stop, metrics, on_ready, "serve") as web,
                publishing(tools, web, stop.force_stop),
            ):
                await run_loops([rescue, fleet_size_loop(context.db)], stop.requested)


async def run_worker(settings: Settings) -> None:
    workers: list[Worker] = []

    def find_problem() -> str:
        return workers[0].problem if workers else "This worker is starting."

    async with (
        _open_context(settings, is_worker=True) as (context, stop, metrics),
        _worker_metrics_server(context, stop, metrics, find_problem),
        run_sender(
            context.db, settings, configured_allow_list(settings), stop.force_stop
        ) as results,
        open_service_tools(context, settings.effective_public_url) as tools,
        running_worker(tools) as worker,
    ):
        workers.append(worker)
        metrics.registry.register(AttemptMetrics(results))
        metrics.registry.register(WorkerMetrics(worker))
        await worker.run(stop.requested, stop.force_stop)


@contextlib.asynccontextmanager
async def _open_context(
    settings: Settings,
    log_handler: LineHandler | None = None,
    *,
    migrate: bool = False,
    is_worker: bool = False,
) -> AsyncIterator[tuple[JobsContext, Stop, Metrics]]:
    configure_logging(settings.log_level, log_handler)
    _log.info("agentjobs %s is starting", describe_build())
    for name in unknown_variables(os.environ):
        _log.warning("%s is not a setting of this version and has no effect", name)
    set_git_limits(
        GitLimits(settings.limit_git_memory_mib * 1024**2, settings.limit_git_cpu_seconds)
    )
    await check_git()
    check_setup_network(settings)
    catalog = build_catalog(settings)
    prepare_data_directory(settings)
    db = await open_database(
        settings.effective_database_url,
        migrate=migrate or settings.auto_migrate,
        direct_url=settings.database_direct_url,
        pool_size=WORKER_POOL_SIZE if is_worker else DEFAULT_POOL_SIZE,
        generic_plans=is_worker,
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(db.close)
        await stack.enter_async_context(exporting_traces(prepare_certificates(settings)))
        stop = Stop()
        stop.listen()
        context = JobsContext(db, settings, catalog)
        if await ensure_default(db, context.plans):
            _log.info("created the organization default")
        # Loaded modules stay in memory; without this, each collection would scan them for almost
        # 100 ms.
        gc.freeze()
        gc.set_threshold(_GC_ALLOCATIONS, 20, 20)
        gc.enable()
        monitor = LoopMonitor()
        metrics = Metrics(monitor) if is_worker else ServiceMetrics(monitor)
        directories = {"data": settings.data_path, "repositories": settings.repositories_path}
        metrics.registry.register(DiskMetrics(directories, settings.disk_floor_mib))
        with monitor.running():
            yield context, stop, metrics


@contextlib.asynccontextmanager
async def _worker_metrics_server(
    context: JobsContext, stop: Stop, metrics: Metrics, find_problem: Callable[[], str]
) -> AsyncIterator[None]:
    if context.settings.metrics_address is None:
        yield
        return
    web = WebContext(
        context,
        ApiKeyAuthenticator(context.db),
        stopping=stop.requested,
        metrics=metrics,
        find_problem=find_problem,
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(web.close)
        await stack.enter_async_context(metrics_server(web))
        yield


@contextlib.asynccontextmanager
async def _deliver_webhooks(
    context: JobsContext, stop: Stop, metrics: Metrics, *, is_laptop: bool = False
) -> AsyncIterator[None]:
    """Runs a service with an API, which also stores the allow-list for the command line."""
    settings = context.settings
    allowed = configured_allow_list(settings)
    loopback = may_allow_loopback(settings, is_laptop=is_laptop)
    await store_allow_list(context.db, allowed, loopback=loopback)
    sender = run_sender(context.db, settings, allowed, stop.force_stop, loopback=loopback)
    async with sender as results:
        metrics.registry.register(AttemptMetrics(results))
        yield


async def _sign_in_link(context: JobsContext) -> str | None:
    """Only on loopback, where only the user who started the service sees it; otherwise None."""
    settings = context.settings
    public_host = urlsplit(settings.effective_public_url).hostname or ""
    if not (is_loopback(settings.host) and is_loopback(public_host)):
        return None
    user = await ensure_administrator(context.db, DEFAULT_ORGANIZATION)
    token = await create_link(context.db, user.id)
    return f"{settings.effective_public_url}/sign-in?token={token}"


def _is_laptop(settings: Settings) -> bool:
    """Only reachable from this machine, so webhook receivers may be on it, too."""
    is_sqlite = settings.effective_database_url.startswith("sqlite:")
    return is_loopback(settings.host) and is_sqlite and not settings.public_url


def _with_bound_port(settings: Settings, listener: socket.socket) -> Settings:
    """The actual port for URLs: with port 0 the system chooses it."""
    return msgspec.structs.replace(settings, port=listener.getsockname()[1])
