"""Queries of the dashboard for an organization with 100,000 jobs in thirty days, on both stores.

Runs the service's own code; filters have common values, rare ones, the oldest job's, and unused
ones.
"""

import contextlib
import functools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvloop

from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.jobs.views.statistics import Statistics
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs.webhooks.statistics import SPANS
from agentjobs_runtime.clock import DAY_MS, now_ms
from bench.cluster import durable_cluster
from bench.dashboard_history import (
    AGENTS,
    DAYS,
    ORGANIZATION_ID,
    History,
    load_history,
)
from bench.report import verdict

ROUNDS = 20
LIST_GOAL_MS = 15.0
OVERVIEW_GOAL_MS = 30.0
_LIMIT = 50

Ask = Callable[[], Awaitable[Any]]


def _filters(until_ms: int) -> dict[str, JobFilter]:
    middle = until_ms - DAYS * DAY_MS // 2
    return {
        "all": JobFilter(),
        "status, common": JobFilter(status="completed"),
        "status, the older half": JobFilter(status="failed"),
        "status, the oldest": JobFilter(status="cancelled"),
        "repo": JobFilter(repo="acme/shop"),
        "repo, the oldest": JobFilter(repo="acme/first"),
        "repo, nobody's": JobFilter(repo="acme/none"),
        "agent": JobFilter(agent=AGENTS[1]),
        "agent, the oldest": JobFilter(agent="first-agent"),
        "agent, nobody's": JobFilter(agent="none"),
        "ticket, the oldest": JobFilter(ticket="FIRST-1"),
        "ticket, nobody's": JobFilter(ticket="NONE-1"),
        "created by": JobFilter(created_by="key_1"),
        "created by the oldest's": JobFilter(created_by="usr_first"),
        "until the middle": JobFilter(until=middle),
        "a day in the middle": JobFilter(since=middle, until=middle + DAY_MS),
        "status and repo": JobFilter(status="completed", repo="acme/shop"),
        "status and repo, disjoint": JobFilter(status="failed", repo="acme/shop"),
        "status and repo, the oldest": JobFilter(status="cancelled", repo="acme/first"),
        "status and agent": JobFilter(status="failed", agent=AGENTS[1]),
        "repo and agent": JobFilter(repo="acme/old", agent=AGENTS[2]),
        "repo and agent, nobody's": JobFilter(repo="acme/old", agent="none"),
        "status and a day": JobFilter(status="failed", since=until_ms - DAY_MS),
        "repo and a day": JobFilter(repo="acme/old", since=until_ms - DAY_MS),
        "status, repo and agent": JobFilter(status="failed", repo="acme/shop", agent=AGENTS[1]),
        "text, common": JobFilter(text="make it WORK"),
        "text, nobody's": JobFilter(text="nowhere to be found"),
        "text and repo": JobFilter(text="nowhere to be found", repo="acme/old"),
    }


async def _median_ms(ask: Ask) -> tuple[float, float]:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took), max(took)


async def _measure(engine: str, db: Database, until_ms: int) -> list[dict[str, Any]]:
    rows = []
    for name, wanted in _filters(until_ms).items():
        median, worst = await _median_ms(
            functools.partial(list_lines, db, ORGANIZATION_ID, wanted, limit=_LIMIT)
        )
        rows.append(_figure(engine, f"list: {name}", median, worst, LIST_GOAL_MS))
    kept = Statistics(db)
    for span in SPANS:
        began = time.perf_counter()
        await Statistics(db).overview(ORGANIZATION_ID, span)
        first = (time.perf_counter() - began) * 1e3
        rows.append(_figure(engine, f"overview: {span}, first", first, first, None))
        await kept.overview(ORGANIZATION_ID, span)
        median, worst = await _median_ms(functools.partial(kept.overview, ORGANIZATION_ID, span))
        rows.append(_figure(engine, f"overview: {span}", median, worst, OVERVIEW_GOAL_MS))
    since = until_ms - DAYS * DAY_MS
    median, worst = await _median_ms(lambda: kept.agent_records(ORGANIZATION_ID, since))
    rows.append(_figure(engine, "records of agents", median, worst, OVERVIEW_GOAL_MS))
    return rows


def _figure(
    engine: str, name: str, median: float, worst: float, goal: float | None
) -> dict[str, Any]:
    return {
        "store": engine,
        "asked": name,
        "median_ms": median,
        "worst_ms": worst,
        "goal_ms": goal or "",
        "verdict": "" if goal is None else verdict(met=median <= goal),
    }


@contextlib.asynccontextmanager
async def _stores(until_ms: int) -> AsyncIterator[dict[str, Database]]:
    with tempfile.TemporaryDirectory() as folder, durable_cluster() as cluster:
        urls = {
            "sqlite": f"sqlite:///{folder}/jobs.db",
            "postgresql": cluster.url(cluster.create_database()),
        }
        stores = {engine: await open_database(url, migrate=True) for engine, url in urls.items()}
        try:
            for url in urls.values():
                await load_history(url, History(until_ms))
            yield stores
        finally:
            for db in stores.values():
                await db.close()


async def _all() -> list[dict[str, Any]]:
    until_ms = now_ms()
    async with _stores(until_ms) as stores:
        return [
            row for engine, db in stores.items() for row in await _measure(engine, db, until_ms)
        ]


def measure() -> list[dict[str, Any]]:
    return uvloop.run(_all())
