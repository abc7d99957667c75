"""All metrics that a process exports."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.web.metrics.environments import EnvironmentMetrics
from agentjobs.web.metrics.fleet import FleetMetrics
from agentjobs.web.metrics.jobs import JobMetrics
from agentjobs.web.metrics.process import LoopMetrics
from agentjobs.web.metrics.webhooks import WebhookMetrics
from agentjobs_runtime.loop_monitor import LoopMonitor
from agentjobs_runtime.outage_log import outages
from agentjobs_runtime.settings import Settings

_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
# Prometheus gives up a scrape after 10 s by default; a store that hangs must not cause that.
_STORE_SECONDS = 5.0
_BOUNDS = (*(str(bound) for bound in _SECONDS), "+Inf")


class RequestMetrics(Collector):
    """Only counts on the event loop's thread, so it needs no locks, unlike ordinary counters."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        # Per route: requests per bucket, and total seconds.
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        # A method that a client invents must not become a label.
        key = (route, method if method in _KNOWN_METHODS else "other", status)
        self._counts[key] = self._counts.get(key, 0) + 1
        buckets = self._buckets.get(route)
        if buckets is None:
            buckets = self._buckets[route] = [0] * len(_BOUNDS)
        buckets[bisect_left(_SECONDS, seconds)] += 1
        self._sums[route] = self._sums.get(route, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "agentjobs_http_requests",
            "Requests by route template, method and status.",
            labels=("route", "method", "status"),
        )
        for (route, method, status), count in self._counts.items():
            requests.add_metric((route, method, str(status)), count)
        yield requests
        durations = HistogramMetricFamily(
            "agentjobs_http_request_seconds",
            "Time from the arrival of a request to the end of its response.",
            labels=("route",),
        )
        for route, buckets in self._buckets.items():
            cumulative = zip(_BOUNDS, accumulate(buckets), strict=True)
            durations.add_metric((route,), list(cumulative), self._sums[route])
        yield durations


class Metrics:
    """The metrics of one process. `registry` takes further collectors."""

    def __init__(self, loop_monitor: LoopMonitor | None = None) -> None:
        self.registry = CollectorRegistry()
        # What `_read_store` reads; it is not exported while the store is unavailable.
        self.stored = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._store_up = Gauge(
            "agentjobs_store_up", "1 while the store responds.", registry=self.registry
        )
        self.requests = RequestMetrics()
        self.registry.register(self.requests)
        if loop_monitor is not None:
            self.registry.register(LoopMetrics(loop_monitor))

    async def export(self, db: Database, settings: Settings) -> bytes:
        """Values of the store are absent while it is unavailable, so that none is outdated."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                await self._read_store(db, settings)
        except (StoreUnavailable, TimeoutError) as error:
            outages.report("metrics", error)
            self._store_up.set(0)
            return generate_latest(self.registry)
        self._store_up.set(1)
        return generate_latest(self.registry) + generate_latest(self.stored)

    async def _read_store(self, db: Database, _settings: Settings) -> None:
        await db.ping()


class ServiceMetrics(Metrics):
    """Adds metrics of the whole service, which any API process reads from the store."""

    def __init__(self, loop_monitor: LoopMonitor | None = None) -> None:
        super().__init__(loop_monitor)
        self.jobs = JobMetrics(self.stored)
        self.webhooks = WebhookMetrics(self.stored)
        self.fleet = FleetMetrics(self.stored)
        self.environments = EnvironmentMetrics(self.stored)

    async def _read_store(self, db: Database, settings: Settings) -> None:
        await self.jobs.refresh(db)
        await self.webhooks.refresh(db)
        await self.fleet.refresh(db, settings)
        await self.environments.refresh(db)
