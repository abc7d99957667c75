"""POST /v1/jobs and GET /v1/jobs/:id on both stores, as a fraction of the bare framework.

All servers run at the same time and are measured alternately; a figure is the median over the
rounds of the ratio within a round, so that other load affects both sides of the ratio.
"""

import asyncio
import contextlib
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agentjobs_runtime.settings import Settings, load
from bench.cluster import durable_cluster
from bench.load import Load, Throughput, run_load
from bench.population import JOB, Tenant, empty_queue, populate
from bench.report import verdict
from bench.server import running

CONNECTIONS = 32
ROUNDS = 7
SECONDS = 1.5
STATUS = {"POST": 202, "GET": 200}
GOALS = {
    ("POST", "sqlite"): 0.45,
    ("POST", "postgresql"): 0.25,
    ("GET", "sqlite"): 0.7,
    ("GET", "postgresql"): 0.5,
}
_ENVIRONMENT = {
    "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0",
    "AGENTJOBS_QUEUE_LIMIT": "1000000",
    # No endpoint exists, and the bare framework has no loops either.
    "AGENTJOBS_SEND_WEBHOOKS": "false",
}
_BODY = msgspec.json.encode(JOB)

BARE = "bare"

Results = dict[tuple[str, str], list[Throughput]]


@dataclass(frozen=True)
class Target:
    """A server, and with a store the `settings` of its service."""

    name: str
    port: int
    tenants: list[Tenant]
    settings: Settings | None = None

    def load(self, method: str) -> Load:
        requests = [_requests(method, tenant) for tenant in self.tenants]
        return Load(self.port, requests, STATUS[method], SECONDS)


def measure() -> list[dict[str, Any]]:
    results: Results = {}
    with contextlib.ExitStack() as stack:
        generator = stack.enter_context(_generator())
        targets = [
            stack.enter_context(_service("sqlite", "")),
            stack.enter_context(_service("postgresql", stack.enter_context(_database()))),
        ]
        targets.append(stack.enter_context(_bare(targets[0].tenants)))
        for number in range(ROUNDS):
            # Every other round in reverse order, so that the position has no effect.
            _round(targets[:: 1 if number % 2 else -1], generator, results)
    return [_figure(method, store, results) for method, store in GOALS]


def _round(targets: list[Target], generator: Executor, results: Results) -> None:
    for method in STATUS:
        for target in targets:
            result = generator.submit(run_load, target.load(method)).result()
            results.setdefault((method, target.name), []).append(result)
    for target in targets:
        if target.settings is not None:
            asyncio.run(empty_queue(target.settings, target.tenants))


def _figure(method: str, store: str, results: Results) -> dict[str, Any]:
    own, bare = results[method, store], results[method, BARE]
    ratios = [one.per_second / other.per_second for one, other in zip(own, bare, strict=True)]
    return {
        "request": method,
        "store": store,
        "per second": round(statistics.median(one.per_second for one in own)),
        "bare": round(statistics.median(one.per_second for one in bare)),
        "load on bare": round(max(one.load_share for one in bare), 2),
        "ratio": round(statistics.median(ratios), 2),
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
        "goal": GOALS[method, store],
        "verdict": verdict(met=statistics.median(ratios) >= GOALS[method, store]),
    }


def _requests(method: str, tenant: Tenant) -> list[bytes]:
    head = f"Host: bench\r\nAuthorization: Bearer {tenant.key}\r\n"
    if method == "GET":
        return [f"GET /v1/jobs/{one} HTTP/1.1\r\n{head}\r\n".encode() for one in tenant.job_ids]
    head += f"Content-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n"
    return [f"POST /v1/jobs HTTP/1.1\r\n{head}\r\n".encode() + _BODY]


@contextlib.contextmanager
def _database() -> Iterator[str]:
    with durable_cluster() as cluster:
        yield cluster.url(cluster.create_database())


@contextlib.contextmanager
def _service(store: str, database_url: str) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        environment = {**_ENVIRONMENT, "AGENTJOBS_DATABASE_URL": database_url}
        settings = load(environment, data_dir=directory)
        tenants = asyncio.run(populate(settings, CONNECTIONS))
        with contextlib.ExitStack() as stack:
            with _on_core(0):
                serving = stack.enter_context(running(Path(directory), environment))
            yield Target(store, serving.port, tenants, settings)


@contextlib.contextmanager
def _bare(tenants: list[Tenant]) -> Iterator[Target]:
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="agentjobs-bench-"))
        with _on_core(0):
            serving = stack.enter_context(running(Path(directory), {}, "bench.bare_server"))
        yield Target(BARE, serving.port, tenants)


@contextlib.contextmanager
def _generator() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with _on_core(-1):
            # The process starts with its first task.
            pool.submit(os.getpid).result()
        yield pool


@contextlib.contextmanager
def _on_core(which: int) -> Iterator[None]:
    """Pins processes started meanwhile to one core: servers to the first, the load to the last."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[which]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
