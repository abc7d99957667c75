"""Workers of a simulated fleet, many in one process: each is the service's own, with its own store,
sender and loops. Only the run of a job is replaced: it starts the job and completes it."""

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from unittest.mock import patch

from agentjobs.app.services import WORKER_POOL_SIZE
from agentjobs.app.worker import running_worker
from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.loops.delivery_loop import run_sender
from agentjobs.loops.fleet_size_loop import fleet_size_loop
from agentjobs.loops.rescue_loop import rescue_loop
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.opening import open_database
from agentjobs.webhooks.allowed_addresses import configured_allow_list
from agentjobs.webhooks.events import JOB_COMPLETED, JOB_FAILED
from agentjobs.webhooks.registration import add_endpoint
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.loop import run_loops
from agentjobs_runtime.protocol.messages import StartJob
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.settings import Settings, load
from agentjobs_worker.agents.catalog import Catalog
from agentjobs_worker.loops import job_loop
from agentjobs_worker.run.context import RunContext
from tests.support.jobs import JobHarness, an_agent, job_harness

AGENT = "fixer"
_DONE = Completed("http://example.com/pulls/1", 1, "2" * 40, draft=False)


@dataclass(frozen=True)
class Fleet:
    """What the processes of the fleet share."""

    database_url: str
    directory: str
    encryption_key: str
    slots: int

    def settings(self) -> Settings:
        given = {
            "AGENTJOBS_DATABASE_URL": self.database_url,
            "AGENTJOBS_ENCRYPTION_KEY": self.encryption_key,
            "AGENTJOBS_PUBLIC_URL": "http://127.0.0.1:9",
            "AGENTJOBS_SANDBOX": "none",
            "AGENTJOBS_SLOTS": str(self.slots),
            "AGENTJOBS_WEBHOOKS_ALLOW": "127.0.0.0/8",
        }
        return load(given, data_dir=f"{self.directory}/{new_id('dir')}")


class Workers:
    """`starts_ms` are the times from the creation of a job to its start."""

    def __init__(self) -> None:
        self._starts_ms: list[int] = []

    async def run_job(self, run: RunContext) -> Completed:
        await run.link.call(StartJob(run.job.claim, "1" * 40, "prompt"))
        self._starts_ms.append(now_ms() - run.job.created_at)
        return _DONE

    async def take_starts_ms(self) -> list[int]:
        starts, self._starts_ms = self._starts_ms, []
        return starts

    async def cpu_seconds(self) -> float:
        return time.process_time()


@contextlib.asynccontextmanager
async def workers(fleet: Fleet, count: int) -> AsyncIterator[Workers]:
    # Each would warn that it has no sandbox.
    logging.disable(logging.WARNING)
    running = Workers()
    stopping, force_stop = asyncio.Event(), asyncio.Event()
    with patch.object(job_loop, "run_job", running.run_job):
        async with asyncio.TaskGroup() as group:
            ready = [asyncio.Event() for _ in range(count)]
            for event in ready:
                group.create_task(_worker(fleet, event, stopping, force_stop))
            for event in ready:
                await event.wait()
            gc.collect()
            gc.freeze()
            yield running
            force_stop.set()
            stopping.set()


async def _worker(
    fleet: Fleet, ready: asyncio.Event, stopping: asyncio.Event, force_stop: asyncio.Event
) -> None:
    """As `run_worker`, without its signals."""
    settings = fleet.settings()
    settings.data_path.mkdir(mode=0o700)
    db = await open_database(
        settings.effective_database_url,
        migrate=False,
        pool_size=WORKER_POOL_SIZE,
        generic_plans=True,
    )
    try:
        context = JobsContext(db, settings, Catalog([an_agent(AGENT)]))
        async with (
            run_sender(db, settings, configured_allow_list(settings), force_stop),
            running_worker(context, git_url=settings.effective_public_url) as worker,
        ):
            ready.set()
            await worker.run(stopping, force_stop)
    finally:
        await db.close()


@dataclass
class Submitter:
    """Creates jobs at a fixed rate, as a `serve` does."""

    harness: JobHarness
    callers: list[Caller] = field(default_factory=list)

    async def add_organizations(self, count: int, receiver_url: str) -> None:
        """Each has an endpoint at the receiver that gets the ends of its jobs."""
        settings = self.harness.context.settings
        keys, allowed = SealingKeys.load(settings), configured_allow_list(settings)
        for number in range(count):
            caller = await self.harness.organization(f"org{number}")
            url = f"{receiver_url}/{number}"
            await add_endpoint(
                self.harness.db,
                keys,
                caller.organization,
                url,
                events=(JOB_COMPLETED, JOB_FAILED),
                allowed=allowed,
            )
            self.callers.append(caller)

    async def offer(self, per_second: float, seconds: float) -> int:
        """The number of jobs. A slow request delays no other one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        count = int(per_second * seconds)
        creating = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / per_second - loop.time()))
            caller = self.callers[number % len(self.callers)]
            creating.append(asyncio.create_task(self._create(caller)))
        await asyncio.gather(*creating)
        return count

    async def cpu_seconds(self) -> float:
        return time.process_time()

    async def _create(self, caller: Caller) -> None:
        body = CreateJobRequest(repo=f"{caller.organization}/shop", agent=AGENT)
        await create_job(self.harness.context, caller, body)


@contextlib.asynccontextmanager
async def submitter(fleet: Fleet) -> AsyncIterator[Submitter]:
    settings = fleet.settings()
    settings.data_path.mkdir(mode=0o700)
    stopping = asyncio.Event()
    db = await open_database(settings.effective_database_url, migrate=True)
    try:
        async with (
            run_sender(db, settings, configured_allow_list(settings), stopping),
            asyncio.TaskGroup() as group,
        ):
            loops = [rescue_loop(db, settings), fleet_size_loop(db)]
            group.create_task(run_loops(loops, stopping))
            yield Submitter(job_harness(db, settings))
            stopping.set()
    finally:
        await db.close()
