"""The one place that wires settings, store, features, web and worker.

Starts them in order and stops them in order; knows no feature from the inside.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import msgspec

from agentjobs.agents.catalog import build_catalog
from agentjobs.agents.certificates import make_bundle
from agentjobs.forges.local import LocalForge
from agentjobs.forges.local_repositories import tidy_repositories
from agentjobs.forges.pushes import record_all_heads
from agentjobs.gateway.prices import prices_of
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.credentials import may_write_branch
from agentjobs.jobs.tools import JobTools
from agentjobs.logging_setup import configure_logging
from agentjobs.organizations.key_ring import KeyRing
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.outbound.addresses import Allowed
from agentjobs.outbound.connector import new_session
from agentjobs.repos.facts import FactsCache
from agentjobs.sandbox.choice import sandbox_for
from agentjobs.settings import Settings, SettingsError, is_loopback, unknown_variables
from agentjobs.store.database import StoreUnavailable
from agentjobs.store.opening import open_database
from agentjobs.web.application import build_application, build_metrics_application
from agentjobs.web.context import WebContext
from agentjobs.web.server import Server, bind, server_for
from agentjobs.webhooks.allowance import effective_allowance, store_allowance
from agentjobs.worker.delivery_loop import sending
from agentjobs.worker.index_loop import IndexLoop
from agentjobs.worker.loop import Loop, PeriodicLoop, run_loops
from agentjobs.worker.prune_loop import prune_loop
from agentjobs.worker.rescue_loop import rescue_loop
from agentjobs.worker.worker import Worker
from agentjobs.workspace.checkout import Workspaces
from agentjobs.workspace.mirror import Mirrors

OnReady = Callable[[str], None]

_log = logging.getLogger(__name__)
_LAST_USED_SECONDS = 30.0
_HEADS_SECONDS = 300.0
_TIDY_SECONDS = 6 * 3600.0
_SERVER_START_SECONDS = 0.005


class _Stop:
    """The first signal asks to stop, the second to hurry."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask)

    def _ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()


async def run_up(settings: Settings, on_ready: OnReady) -> None:
    """API and worker in one process, on one store, until told to stop."""
    with contextlib.closing(bind(settings.host, settings.port)) as listener:
        async with (
            _opened(_with_bound_port(settings, listener)) as (context, stop),
            _sending(context, stop, is_laptop=_is_laptop(settings)),
            _worker(context, git_url=context.settings.own_url) as worker,
            _serving(context, listener, stop, on_ready),
        ):
            await worker.run(stop.asked, stop.hurry)


async def run_serve(settings: Settings, on_ready: OnReady) -> None:
    with contextlib.closing(bind(settings.host, settings.port)) as listener:
        async with _opened(_with_bound_port(settings, listener)) as (context, stop):
            rescue = rescue_loop(context.db, context.settings)
            async with (
                _sending(context, stop),
                _serving(context, listener, stop, on_ready),
            ):
                await run_loops([rescue], stop.asked)


async def run_worker(settings: Settings) -> None:
    async with (
        _opened(settings) as (context, stop),
        sending(context.db, settings, effective_allowance(settings, is_laptop=False), stop.hurry),
        _worker(context, git_url=settings.effective_public_url) as worker,
    ):
        await worker.run(stop.asked, stop.hurry)


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[JobsContext, _Stop]]:
    configure_logging(settings.log_level)
    for name in unknown_variables(os.environ):
        _log.warning("%s is not a setting of this version and has no effect", name)
    catalog = build_catalog(settings)
    settings.data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    db = await open_database(settings.effective_database_url, migrate=True)
    try:
        stop = _Stop()
        stop.listen()
        context = JobsContext(db, settings, catalog)
        if await ensure_default(db, context.plans):
            _log.info("created the organization default")
        # What is loaded by now stays: the collector need not look through it again and again,
        # which takes it the better part of 100 ms each time.
        gc.collect()
        gc.freeze()
        yield context, stop
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def _sending(
    context: JobsContext, stop: _Stop, *, is_laptop: bool = False
) -> AsyncIterator[None]:
    """Beside an API, which also tells the command line what may be added."""
    allowed = effective_allowance(context.settings, is_laptop=is_laptop)
    await store_allowance(context.db, allowed)
    async with sending(context.db, context.settings, allowed, stop.hurry):
        yield


def _is_laptop(settings: Settings) -> bool:
    """Reached from this machine alone: then receivers may be on it, too."""
    is_sqlite = settings.effective_database_url.startswith("sqlite:")
    return is_loopback(settings.host) and is_sqlite and not settings.public_url


def _with_bound_port(settings: Settings, listener: socket.socket) -> Settings:
    """Port 0 lets the system choose; every address we tell needs the real one."""
    return msgspec.structs.replace(settings, port=listener.getsockname()[1])


@contextlib.asynccontextmanager
async def _worker(context: JobsContext, git_url: str) -> AsyncIterator[Worker]:
    settings = context.settings
    sandbox = sandbox_for(settings)
    await sandbox.check()
    mirrors = Mirrors(settings.data_path / "mirrors")
    public_url = settings.effective_public_url
    forge = LocalForge(context.db, git_url, public_url, may_write_branch)
    allowed = _allowed(settings)
    workspaces = Workspaces(
        settings.data_path / "workspaces", mirrors, cache_max_bytes=settings.cache_max_bytes
    )
    session = _session(settings, allowed)
    try:
        tools = JobTools(
            context=context,
            mirrors=mirrors,
            workspaces=workspaces,
            sandbox=sandbox,
            forges={forge.platform: forge},
            facts=FactsCache(),
            keys=SealingKeys.load(settings),
            prices=prices_of(settings),
            allowed=allowed,
            session=session,
            certificates=_certificates(settings),
        )
        worker = Worker(tools, settings.effective_slots)
        await worker.start()
        yield worker
    finally:
        await session.close()
        await workspaces.close()


def _session(settings: Settings, allowed: Allowed) -> aiohttp.ClientSession:
    try:
        return new_session(allowed, settings.ca_file)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _certificates(settings: Settings) -> Path | None:
    if not settings.ca_file:
        return None
    try:
        return make_bundle(Path(settings.ca_file), settings.data_path)
    except OSError as error:
        raise SettingsError(f"ca_file {settings.ca_file}: {error.strerror}") from None


def _allowed(settings: Settings) -> Allowed:
    try:
        return Allowed.parse(settings.egress_allow)
    except ValueError as error:
        raise SettingsError(f"AGENTJOBS_EGRESS_ALLOW: {error}") from None


@contextlib.asynccontextmanager
async def _serving(
    jobs: JobsContext, listener: socket.socket, stop: _Stop, on_ready: OnReady
) -> AsyncIterator[None]:
    """The API while the body runs; it still answers git and status while a worker drains."""
    context = WebContext(jobs, KeyRing(jobs.db), stop.asked)
    served = asyncio.Event()
    async with asyncio.TaskGroup() as group, _metrics_server(context, group):
        server = server_for(build_application(context))
        serving = group.create_task(server.serve(sockets=[listener]))
        await _started(server, serving)
        group.create_task(run_loops(_serving_loops(context), served))
        on_ready(f"{jobs.settings.effective_public_url}/v1")
        try:
            yield
        finally:
            served.set()
            server.should_exit = True
            with contextlib.suppress(StoreUnavailable):
                await context.keyring.flush_last_used()


@contextlib.asynccontextmanager
async def _metrics_server(context: WebContext, group: asyncio.TaskGroup) -> AsyncIterator[None]:
    address = context.settings.metrics_address
    if address is None:
        yield
        return
    with contextlib.closing(bind(*address)) as listener:
        server = server_for(build_metrics_application(context))
        serving = group.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving


async def _started(server: Server, serving: asyncio.Task[None]) -> None:
    # The server offers nothing to wait on; it is listening already, this is a matter of ticks.
    while not server.started and not serving.done():  # noqa: ASYNC110
        await asyncio.sleep(_SERVER_START_SECONDS)


def _serving_loops(context: WebContext) -> list[Loop]:
    db, settings = context.db, context.settings
    data_path = settings.data_path
    return [
        IndexLoop(db, data_path),
        PeriodicLoop("heads", _HEADS_SECONDS, lambda: record_all_heads(db, data_path)),
        PeriodicLoop("keys", _LAST_USED_SECONDS, context.keyring.flush_last_used),
        PeriodicLoop(
            "repositories",
            _TIDY_SECONDS,
            lambda: tidy_repositories(data_path),
            first_after_seconds=_TIDY_SECONDS / 10,
        ),
        prune_loop(db, settings),
    ]
