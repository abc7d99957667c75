"""POST /v1/jobs and GET /v1/jobs/:id on both stores, as a fraction of the same server without one.

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

from agentjobs.settings import Settings, load
from bench.cluster import durable_cluster
from bench.load import Load, run_load
from bench.population import JOB, Tenant, empty_queue, populate
from bench.report import verdict
from bench.server import MEMORY, running

CONNECTIONS = 32
ROUNDS = 7
SECONDS = 1.5
STATUS = {"POST": 202, "GET": 200}
GOALS = {
    ("POST", "sqlite"): 0.35,
    ("POST", "postgresql"): 0.15,
    ("GET", "sqlite"): 0.6,
    ("GET", "postgresql"): 0.25,
}
_ENVIRONMENT = {
    "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0",
    "AGENTJOBS_QUEUE_LIMIT": "1000000",
    # The baseline has no queue of deliveries.
    "AGENTJOBS_SEND_WEBHOOKS": "false",
}
_BODY = msgspec.json.encode(JOB)

Rates = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Target:
    store: str
    settings: Settings
    tenants: list[Tenant]
    port: int

    def load(self, method: str) -> Load:
        requests = [_requests(method, tenant) for tenant in self.tenants]
        return Load(self.port, requests, STATUS[method], SECONDS)


def measure() -> list[dict[str, Any]]:
    rates: Rates = {}
    with contextlib.ExitStack() as stack:
        generator = stack.enter_context(_generator())
        targets = [
            stack.enter_context(_target(store, url))
            for store, url in stack.enter_context(_stores())
        ]
        for number in range(ROUNDS):
            # Every other round in reverse order, so that the position has no effect.
            _round(targets[:: 1 if number % 2 else -1], generator, rates)
    return [_figure(method, store, rates) for method, store in GOALS]


def _round(targets: list[Target], generator: Executor, rates: Rates) -> None:
    for method in STATUS:
        for target in targets:
            rate = generator.submit(run_load, target.load(method)).result()
            rates.setdefault((method, target.store), []).append(rate)
    for target in targets:
        asyncio.run(empty_queue(target.settings, target.tenants))


def _figure(method: str, store: str, rates: Rates) -> dict[str, Any]:
    own, baseline = rates[method, store], rates[method, MEMORY]
    ratios = [one / other for one, other in zip(own, baseline, strict=True)]
    return {
        "request": method,
        "store": store,
        "per second": round(statistics.median(own)),
        "without store": round(statistics.median(baseline)),
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
def _stores() -> Iterator[list[tuple[str, str]]]:
    with durable_cluster() as cluster:
        address = cluster.url(cluster.create_database())
        yield [(MEMORY, ""), ("sqlite", ""), ("postgresql", address)]


@contextlib.contextmanager
def _target(store: str, database_url: str) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        environment = {**_ENVIRONMENT, "AGENTJOBS_DATABASE_URL": database_url}
        settings = load(environment, data_dir=directory)
        tenants = asyncio.run(populate(settings, CONNECTIONS))
        with contextlib.ExitStack() as stack:
            with _on_core(0):
                serving = stack.enter_context(running(store, Path(directory), environment))
            yield Target(store, settings, tenants, serving.port)


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
