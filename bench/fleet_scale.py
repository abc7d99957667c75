"""A fleet of 50 workers with 8 slots each over one PostgreSQL: idle, at 25 and 100 jobs per second.

The workers are the service's own (`bench/fleet_worker.py`), only the runs of jobs do nothing. Each
organization has an endpoint that gets the ends of its jobs.
"""

import asyncio
import base64
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import asyncpg

from agentjobs.organizations.key_file import new_key
from bench.cluster import durable_cluster
from bench.fleet_worker import Fleet, submitter, workers
from bench.process_usage import cpu_seconds
from bench.report import verdict
from bench.webhook_process import Ask, in_a_process
from bench.webhook_receiver import receiver
from tests.support.postgres import PostgresCluster

WORKERS = 50
SLOTS = 8
ORGANIZATIONS = 20
JOBS_PER_SECOND = 100
# The simulated workers share the machine with PostgreSQL. At this rate, there is CPU time left.
LIGHT_JOBS_PER_SECOND = 25
LOAD_SECONDS = 20
IDLE_SECONDS = 20
GOAL_CONNECTIONS = 200
GOAL_START_P99_MS = 250
GOAL_IDLE_CORE = 0.05
_PROCESSES = 2
# Connections that were needed at the start are closed after 10 seconds. PostgreSQL keeps the plan
# of a statement when a connection has run it five times.
_SETTLE_SECONDS = 40
_WARM_UP_SECONDS = 5
_SAMPLE_SECONDS = 0.2
_MAX_WAIT_SECONDS = 60
_CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    " AND pid <> pg_backend_pid()"
)
_TRANSACTIONS = (
    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)


def measure() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory,
        # Above the goal, so that a larger number is measured instead of refused.
        durable_cluster(max_connections="300") as cluster,
        in_a_process(receiver) as received,
        contextlib.ExitStack() as stack,
    ):
        url = cluster.url(cluster.create_database())
        fleet = Fleet(url, directory, base64.b64encode(new_key()).decode(), SLOTS)
        serve = stack.enter_context(in_a_process(submitter, fleet))
        serve("add_organizations", ORGANIZATIONS, f"http://127.0.0.1:{received('port')}")
        hosts = [
            stack.enter_context(in_a_process(workers, fleet, WORKERS // _PROCESSES))
            for _ in range(_PROCESSES)
        ]
        figures = [*_idle(cluster, url)]
        _offer(serve, hosts, received, JOBS_PER_SECOND, _WARM_UP_SECONDS)
        for rate in (LIGHT_JOBS_PER_SECOND, JOBS_PER_SECOND):
            figures += _load(cluster, url, serve, hosts, received, rate)
        return figures


def _idle(cluster: PostgresCluster, url: str) -> Iterator[dict[str, Any]]:
    time.sleep(_SETTLE_SECONDS)
    with _counted_connections(url) as counts:
        used = _share_of_a_core(cluster, IDLE_SECONDS)
    yield _figure("idle: connections", max(counts), GOAL_CONNECTIONS)
    yield _figure("idle: % of a core in PostgreSQL", used * 100, GOAL_IDLE_CORE * 100)


def _share_of_a_core(cluster: PostgresCluster, seconds: float) -> float:
    began, used = time.monotonic(), cpu_seconds(cluster.pid)
    time.sleep(seconds)
    return (cpu_seconds(cluster.pid) - used) / (time.monotonic() - began)


def _load(
    cluster: PostgresCluster, url: str, serve: Ask, hosts: list[Ask], received: Ask, rate: int
) -> Iterator[dict[str, Any]]:
    before = _used(cluster, url, serve, hosts)
    with _counted_connections(url) as counts:
        starts, missing = _offer(serve, hosts, received, rate, LOAD_SECONDS)
    used = {
        name: amount - before[name] for name, amount in _used(cluster, url, serve, hosts).items()
    }
    quantiles = statistics.quantiles(starts, n=100)
    has_goal = rate == JOBS_PER_SECOND
    load = f"{rate} jobs/s"
    yield _figure(f"{load}: connections", max(counts), GOAL_CONNECTIONS if has_goal else None)
    yield _figure(f"{load}: start p50 ms", quantiles[49])
    yield _figure(f"{load}: start p99 ms", quantiles[98], GOAL_START_P99_MS if has_goal else None)
    yield _figure(f"{load}: deliveries that are late by a minute", missing, 0)
    for name, amount in used.items():
        yield _figure(f"{load}: {name} per job", amount / len(starts))


def _used(cluster: PostgresCluster, url: str, serve: Ask, hosts: list[Ask]) -> dict[str, float]:
    return {
        "transactions": _transactions(url),
        "CPU ms of PostgreSQL": cpu_seconds(cluster.pid) * 1_000,
        "CPU ms of all workers": sum(host("cpu_seconds") for host in hosts) * 1_000,
        "CPU ms of the process that creates jobs": serve("cpu_seconds") * 1_000,
    }


def _transactions(url: str) -> int:
    """Includes one of each listening connection for each notification."""

    async def read() -> int:
        connection = await asyncpg.connect(url)
        try:
            return int(await connection.fetchval(_TRANSACTIONS))
        finally:
            await connection.close()

    return asyncio.run(read())


def _offer(
    serve: Ask, hosts: list[Ask], received: Ask, rate: int, seconds: float
) -> tuple[list[int], int]:
    """How long each job took to start, and how many deliveries of their ends did not arrive."""
    received("take")
    jobs = serve("offer", rate, seconds)
    give_up_at = time.monotonic() + _MAX_WAIT_SECONDS
    while (missing := jobs - received("answered")) > 0 and time.monotonic() < give_up_at:
        time.sleep(_SAMPLE_SECONDS)
    return [start for host in hosts for start in host("take_starts_ms")], max(missing, 0)


@contextlib.contextmanager
def _counted_connections(url: str) -> Iterator[list[int]]:
    """Samples of the number of connections, while the block runs."""
    counts: list[int] = []
    ended = threading.Event()

    async def sample() -> None:
        connection = await asyncpg.connect(url)
        try:
            while not ended.is_set():
                counts.append(await connection.fetchval(_CONNECTIONS))
                await asyncio.sleep(_SAMPLE_SECONDS)
        finally:
            await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(sample()))
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def _figure(what: str, value: float, goal: float | None = None) -> dict[str, Any]:
    return {
        "what": what,
        "measured": round(float(value), 1),
        "goal": "" if goal is None else goal,
        "verdict": "" if goal is None else verdict(met=value <= goal),
    }
