"""A store with a million jobs compared to one with a thousand: requests, claims and the loops.

The two stores are measured alternately with the service's own code, below HTTP, whose constant cost
would hide differences. Both have the same short queue.
"""

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.kept_work import fail_expired_work
from agentjobs.jobs.queue.retention import prune
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.jobs.views.queries import get_job, list_jobs
from agentjobs.jobs.views.statistics import Statistics
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator, Caller
from agentjobs.store.opening import open_database
from agentjobs.web.metrics.registry import ServiceMetrics
from agentjobs.webhooks.maintenance import run_maintenance
from agentjobs.webhooks.retention import prune_deliveries
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Failed
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.catalog import Catalog
from bench.cluster import durable_cluster
from bench.flatness_data import (
    AGENTS,
    LARGE_TABLES,
    ORGANIZATION,
    REPO,
    fill_postgresql,
    fill_sqlite,
)
from bench.report import verdict
from tests.support.jobs import an_agent

SMALL, LARGE = 1_000, 1_000_000
ROUNDS = 100
WARM_UP = 10
GOAL_RATIO = 1.2
_WAITING_JOBS = 20
_KEPT_DAYS = 60
_FAILED = Failed("agent_failed", "It ended with code 1.")
_SCANS = "SELECT COALESCE(SUM(seq_scan), 0) FROM pg_stat_user_tables WHERE relname = ANY($1)"

Step = Callable[[], Awaitable[object]]


@dataclass
class Store:
    """One store and the operations that are measured. They leave its queue as it was."""

    context: JobsContext
    caller: Caller
    statistics: Statistics
    metrics: ServiceMetrics
    old_job: str
    middle: str
    created: str = ""
    claimed: ClaimedJob | None = None

    def steps(self) -> dict[str, Step]:
        db, settings = self.context.db, self.context.settings
        return {
            "POST": self._create,
            "GET of a waiting job": lambda: self._get(self.created),
            "GET of a finished job": lambda: self._get(self.old_job),
            "list": self._list,
            "list, from the middle": lambda: self._list(before=self.middle),
            "list by status": lambda: self._list(status="failed"),
            "list by status without a job": lambda: self._list(status="running"),
            "list by repo": lambda: self._list(repo=REPO),
            "list by agent": lambda: self._list(agent=AGENTS[1]),
            "list by agent without a job": lambda: self._list(agent=AGENTS[-1]),
            "list by status, repo and agent": lambda: self._list(
                status="completed", repo=REPO, agent=AGENTS[0]
            ),
            "list by ticket": lambda: self._list(ticket="SHOP-500"),
            "list by label": lambda: self._list(labels={"team": "team-0"}),
            "list by two labels": lambda: self._list(labels={"team": "team-0", "run": "run-5"}),
            "claim": self._claim,
            "start": self._start,
            "end": self._finish,
            "look at an empty queue": self._look,
            "state of the fleet": self._read_fleet,
            "rescue": lambda: rescue_lost_jobs(db, settings),
            "maintenance of deliveries": lambda: run_maintenance(db),
            "prune, nothing to delete": self._prune,
            "metrics": lambda: self.metrics.export(db, settings),
            "dashboard: overview": lambda: self.statistics.overview(
                self.caller.organization_id, "24h"
            ),
            "dashboard: list by ticket": lambda: list_lines(
                db, self.caller.organization_id, JobFilter(ticket="SHOP-500"), limit=50
            ),
        }

    async def _create(self) -> None:
        body = CreateJobRequest(repo=REPO, agent=AGENTS[0], ticket_id="SHOP-1")
        self.created = (await create_job(self.context, self.caller, body)).receipt.job_id

    async def _get(self, job_id: str) -> object:
        return await get_job(self.context, self.caller.organization_id, job_id)

    async def _list(self, before: str | None = None, **filters: Any) -> object:
        return await list_jobs(
            self.context, self.caller.organization_id, JobFilter(**filters), before=before
        )

    async def _claim(self) -> None:
        (self.claimed,) = await Claimer(self.context, "wrk_bench").claim([AGENTS[0]], 1)

    async def _start(self) -> None:
        assert self.claimed is not None
        await start_job(self.context.db, self.claimed, "1" * 40, "prompt")

    async def _finish(self) -> None:
        assert self.claimed is not None
        assert await finish_job(self.context.db, self.claimed, _FAILED)

    async def _look(self) -> None:
        assert not await Claimer(self.context, "wrk_bench").claim([AGENTS[-1]], 8)

    async def _read_fleet(self) -> None:
        self.context.fleet.forget()
        await self.context.fleet.state()

    async def _prune(self) -> None:
        db = self.context.db
        await prune(db, now_ms(), log_days=_KEPT_DAYS, job_days=_KEPT_DAYS)
        assert await prune_deliveries(db, _KEPT_DAYS, now_ms()) == 0
        await fail_expired_work(db)


def measure() -> list[dict[str, Any]]:
    with (
        # Enough memory for both, as a server that has such a table.
        durable_cluster(shared_buffers="1GB", max_wal_size="8GB") as cluster,
        tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory,
    ):
        urls = {
            "postgresql": [cluster.url(cluster.create_database()) for _ in (SMALL, LARGE)],
            "sqlite": [f"sqlite:///{directory}/{size}.db" for size in (SMALL, LARGE)],
        }
        return [row for store, pair in urls.items() for row in uvloop.run(_measure(store, *pair))]


async def _measure(store: str, small: str, large: str) -> list[dict[str, Any]]:
    async with _store(small, SMALL) as first, _store(large, LARGE) as second:
        pairs = {
            name: (step, other)
            for (name, step), other in zip(
                first.steps().items(), second.steps().values(), strict=True
            )
        }
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
        for number in range(WARM_UP + ROUNDS):
            if number == WARM_UP:
                scans = await _table_scans(large)
            for name, steps in pairs.items():
                for which in (0, 1) if number % 2 else (1, 0):
                    spent = await _time(steps[which])
                    if number >= WARM_UP:
                        times[name][which].append(spent)
        rows = [_figure(store, name, *each) for name, each in times.items()]
        if store == "postgresql":
            rows.append(_scan_figure(await _table_scans(large) - scans))
        return rows


async def _time(step: Step) -> float:
    began = time.perf_counter()
    await step()
    return (time.perf_counter() - began) * 1e3


async def _table_scans(url: str) -> int:
    """Of the tables that grow with the number of jobs."""
    if url.startswith("sqlite"):
        return 0
    connection = await asyncpg.connect(url)
    try:
        # Servers report their counts at most once a second.
        await asyncio.sleep(1.5)
        return int(await connection.fetchval(_SCANS, list(LARGE_TABLES)))
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _store(url: str, jobs: int) -> AsyncIterator[Store]:
    settings = Settings(data_dir="/nonexistent", database_url=url)
    db = await open_database(url, migrate=True)
    try:
        # Ends a day ago, so that both stores have as many jobs in the current hour.
        until = now_ms() - DAY_MS
        if url.startswith("sqlite"):
            await asyncio.to_thread(fill_sqlite, Path(url.removeprefix("sqlite:///")), jobs, until)
        else:
            await fill_postgresql(url, jobs, until)
        context = JobsContext(db, settings, Catalog([an_agent(agent) for agent in AGENTS]))
        key = await create_key(db, ORGANIZATION)
        caller = await ApiKeyAuthenticator(db).authenticate(key.key)
        assert caller is not None
        old_jobs = (await list_jobs(context, caller.organization_id, limit=100)).jobs
        middle = await db.fetch_one(
            "SELECT id FROM jobs WHERE organization_id = :id ORDER BY id LIMIT 1"
            f" OFFSET {jobs // 4}",
            id=caller.organization_id,
        )
        assert middle is not None
        store = Store(
            context, caller, Statistics(db), ServiceMetrics(), old_jobs[-1].job_id, middle["id"]
        )
        waiting = CreateJobRequest(repo=REPO, agent=AGENTS[1])
        for _ in range(_WAITING_JOBS):
            await create_job(context, caller, waiting)
        yield store
    finally:
        await db.close()


def _figure(store: str, what: str, small: list[float], large: list[float]) -> dict[str, Any]:
    ratio = statistics.median(large) / statistics.median(small)
    return {
        "store": store,
        "what": what,
        f"{SMALL:,} jobs, ms": round(statistics.median(small), 2),
        f"{LARGE:,} jobs, ms": round(statistics.median(large), 2),
        "ratio": round(ratio, 2),
        "goal": GOAL_RATIO,
        "verdict": verdict(met=ratio <= GOAL_RATIO),
    }


def _scan_figure(scans: int) -> dict[str, Any]:
    return {
        "store": "postgresql",
        "what": "scans of large tables",
        f"{SMALL:,} jobs, ms": "",
        f"{LARGE:,} jobs, ms": "",
        "ratio": scans,
        "goal": 0,
        "verdict": verdict(met=scans == 0),
    }
