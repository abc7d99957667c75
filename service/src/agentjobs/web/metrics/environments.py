"""Metrics of builds of environments and of their snapshots, read from the store at each scrape."""

import asyncio
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agentjobs.store.database import Database, Row
from agentjobs.web.metrics.finished import FinishedRows
from agentjobs_runtime.clock import DAY_MS, SECOND_MS
from agentjobs_runtime.identifiers import first_id_at

_SETUP_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


class EnvironmentMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._active = gauge(
            "agentjobs_environment_builds_active",
            "Builds of environments that wait or run, by state.",
            ("state",),
        )
        self._snapshots = gauge(
            "agentjobs_environment_snapshots", "Snapshots of environments on all workers."
        )
        self._bytes = gauge(
            "agentjobs_environment_snapshot_bytes", "Size of the snapshots on all workers."
        )
        self._finished = Counter(
            "agentjobs_environment_builds_finished",
            "Builds of environments finished since this process started, by result.",
            ("result",),
            registry=registry,
        )
        # Prometheus sees no increase of a series that appears with its first event.
        for result in ("ready", "failed"):
            self._finished.labels(result)
        self._setup = Histogram(
            "agentjobs_environment_setup_seconds",
            "Duration of the setup command, for builds that succeeded.",
            buckets=_SETUP_SECONDS,
            registry=registry,
        )
        self._lock = asyncio.Lock()
        self._new = FinishedRows("finished_at")

    async def refresh(self, db: Database) -> None:
        # Two concurrent scrapes would count the same builds twice.
        async with self._lock:
            await self._read_states(db)
            await self._read_finished(db, await db.clock_ms())

    async def _read_states(self, db: Database) -> None:
        rows = await db.fetch_all(
            "SELECT state, COUNT(*) AS number, SUM(size_bytes) AS size FROM environment_builds"
            " WHERE state IN ('queued', 'building', 'ready') GROUP BY state"
        )
        numbers = {row["state"]: row["number"] for row in rows}
        for state in ("queued", "building"):
            self._active.labels(state).set(numbers.get(state, 0))
        self._snapshots.set(numbers.get("ready", 0))
        self._bytes.set(sum(row["size"] for row in rows if row["state"] == "ready"))

    async def _read_finished(self, db: Database, now: int) -> None:
        async def read(since: int) -> list[Row]:
            return await db.fetch_all(
                "SELECT id, error, setup_ms, finished_at FROM environment_builds"
                # The index on identifiers: the rows contain logs, and reading all is slow.
                " WHERE id >= :first_id AND finished_at > :since",
                first_id=first_id_at("env", max(since - DAY_MS, 0)),
                since=since,
            )

        for row in await self._new.new(now, read):
            self._count(row)

    def _count(self, row: Row) -> None:
        self._finished.labels("failed" if row["error"] else "ready").inc()
        if row["setup_ms"]:
            self._setup.observe(row["setup_ms"] / SECOND_MS)
