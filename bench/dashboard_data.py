"""What the dashboard reads, of an organization with 100,000 jobs in thirty days, on both stores.

Asked with the code of the service; the values of filters are common, rare, the oldest job's only,
and nobody's.
"""

import asyncio
import contextlib
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.identifiers import first_id_at
from agentjobs.jobs.listing import JobFilter, list_lines
from agentjobs.jobs.statistics import SPANS, Statistics
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from bench.cluster import durable_cluster
from bench.report import verdict

JOBS = 100_000
ROUNDS = 20
LIST_GOAL_MS = 15.0
OVERVIEW_GOAL_MS = 30.0
_LIMIT = 50
_DAYS = 30
_AT_ONCE = 5_000
_TIME_LENGTH = len("job_") + 10
_ORGANIZATION = "org_large"
_PROMPT = "You are a coding agent, working on a repository.\n" * 60

_COLUMNS = {
    "organizations": "id name plan created_at",
    "repos": "id organization_id full_name platform source default_branch head_commit index_status"
    " created_at",
    "jobs": "id organization_id repo_id repo agent ticket_id config_override status created_at"
    " queued_at started_at completed_at branch pr_number error_code error_message usage prompt"
    " created_by created_by_name",
    "job_spending": "job_id spent_nanousd",
    "deliveries": "id organization_id endpoint_id job_id sequence event_id event status due_at"
    " created_at",
}

Rows = Iterator[tuple[Any, ...]]
Ask = Callable[[], Awaitable[Any]]


def _tables(until_ms: int) -> dict[str, Rows]:
    return {
        "organizations": ((name, name, "enterprise", 0) for name in (_ORGANIZATION, "org_small")),
        "repos": (
            ("repo_1", _ORGANIZATION, "acme/shop", "local", "", "main", "0" * 40, "ready", 0),
        ).__iter__(),
        "jobs": (_job(number, until_ms) for number in range(JOBS)),
        "job_spending": ((_id("job", number, until_ms), 12_345_678) for number in range(JOBS)),
        "deliveries": (_delivery(number, until_ms) for number in range(JOBS * 3)),
    }


def _job(number: int, until_ms: int) -> tuple[Any, ...]:
    """The oldest has names of its own; the older half one repository, the younger another."""
    at = _at(number, until_ms)
    is_oldest, is_old = number == 0, number < JOBS // 2
    is_open = number >= JOBS - 200
    status = "failed" if is_old else "completed"
    if is_oldest:
        status = "cancelled"
    elif is_open:
        status = "queued" if number % 2 else "running"
    return (
        _id("job", number, until_ms),
        _ORGANIZATION,
        "repo_1",
        "acme/first" if is_oldest else "acme/old" if is_old else "acme/shop",
        "first-agent" if is_oldest else f"agent-{number % 4}",
        "FIRST-1" if is_oldest else f"SHOP-{number}" if number % 3 else None,
        f'{{"title": "Make it work, number {number}", "prompt": "{"Please look at it. " * 20}"}}',
        status,
        at,
        at,
        None if is_open else at + 2_000,
        None if is_open else at + 60_000,
        f"agentjobs/agent/{number:012}",
        None if is_open else number,
        "agent_failed" if is_old else None,
        "It ended with code 1." if is_old else None,
        '{"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.012345678, "requests": 1}',
        _PROMPT,
        "usr_first" if is_oldest else "key_1",
        "somebody",
    )


def _delivery(number: int, until_ms: int) -> tuple[Any, ...]:
    job, sequence = divmod(number, 3)
    at = _at(job, until_ms) + sequence * 30_000
    identifier = f"{first_id_at('dlv', at)[:_TIME_LENGTH]}{number:016}"
    status = "failed" if number % 13 == 0 else "delivered"
    job_id = _id("job", job, until_ms)
    event_id = f"evt_{number:026}"
    return (
        identifier, _ORGANIZATION, "whk_1", job_id, sequence + 1, event_id, "job.queued", status,
        at, at,
    )  # fmt: skip


def _at(number: int, until_ms: int) -> int:
    return until_ms - _DAYS * DAY_MS + (number + 1) * _DAYS * DAY_MS // JOBS


def _id(prefix: str, number: int, until_ms: int) -> str:
    return f"{first_id_at(prefix, _at(number, until_ms))[:_TIME_LENGTH]}{number:016}"


def _load_sqlite(path: Path, until_ms: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, rows in _tables(until_ms).items():
            columns = _COLUMNS[table].split()
            places = ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows
            )
            connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def _load_postgresql(url: str, until_ms: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        for table, rows in _tables(until_ms).items():
            columns = _COLUMNS[table].split()
            while some := list(itertools.islice(rows, _AT_ONCE)):
                await connection.copy_records_to_table(table, records=some, columns=columns)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


def _filters(until_ms: int) -> dict[str, JobFilter]:
    middle = until_ms - _DAYS * DAY_MS // 2
    return {
        "all": JobFilter(),
        "status, common": JobFilter(status="completed"),
        "status, the older half": JobFilter(status="failed"),
        "status, the oldest": JobFilter(status="cancelled"),
        "repo": JobFilter(repo="acme/shop"),
        "repo, the oldest": JobFilter(repo="acme/first"),
        "repo, nobody's": JobFilter(repo="acme/none"),
        "agent": JobFilter(agent="agent-1"),
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
        "status and agent": JobFilter(status="failed", agent="agent-1"),
        "repo and agent": JobFilter(repo="acme/old", agent="agent-2"),
        "repo and agent, nobody's": JobFilter(repo="acme/old", agent="none"),
        "status and a day": JobFilter(status="failed", since=until_ms - DAY_MS),
        "repo and a day": JobFilter(repo="acme/old", since=until_ms - DAY_MS),
        "status, repo and agent": JobFilter(status="failed", repo="acme/shop", agent="agent-1"),
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
            lambda wanted=wanted: list_lines(db, _ORGANIZATION, wanted, limit=_LIMIT)
        )
        rows.append(_figure(engine, f"list: {name}", median, worst, LIST_GOAL_MS))
    kept = Statistics(db)
    for span in SPANS:
        began = time.perf_counter()
        await Statistics(db).overview(_ORGANIZATION, span)
        first = (time.perf_counter() - began) * 1e3
        rows.append(_figure(engine, f"overview: {span}, first", first, first, None))
        await kept.overview(_ORGANIZATION, span)
        median, worst = await _median_ms(lambda span=span: kept.overview(_ORGANIZATION, span))
        rows.append(_figure(engine, f"overview: {span}", median, worst, OVERVIEW_GOAL_MS))
    since = until_ms - _DAYS * DAY_MS
    median, worst = await _median_ms(lambda: kept.agent_records(_ORGANIZATION, since))
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
        path = Path(folder) / "jobs.db"
        urls = {
            "sqlite": f"sqlite:///{path}",
            "postgresql": cluster.url(cluster.create_database()),
        }
        stores = {engine: await open_database(url, migrate=True) for engine, url in urls.items()}
        try:
            await asyncio.to_thread(_load_sqlite, path, until_ms)
            await _load_postgresql(urls["postgresql"], until_ms)
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
