"""Metrics of the queue and of finished jobs, read from the store at each scrape.

Any API process reports them for all workers, so a worker does not need to be scraped for them.
"""

import asyncio
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agentjobs.jobs.model import Usage
from agentjobs.store.database import Database, Row
from agentjobs.web.metrics.finished import FinishedRows
from agentjobs_runtime.clock import SECOND_MS

_decode_usage = msgspec.json.Decoder(Usage).decode
_WAIT_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
_DURATION_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200)


class AgentMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self._finished = counter(
            "agentjobs_agent_jobs_finished",
            "Jobs finished since this process started, by agent and status.",
            ("agent", "status"),
        )
        self._seconds = counter(
            "agentjobs_agent_run_seconds",
            "Time from the start of the agent to the outcome, in total.",
            ("agent",),
        )
        self._tokens = counter(
            "agentjobs_agent_tokens",
            "Tokens that finished jobs sent to models (input) and received (output).",
            ("agent", "direction"),
        )
        self._cost = counter(
            "agentjobs_agent_cost_usd", "What the models of finished jobs cost.", ("agent",)
        )

    def count(self, job: Row) -> None:
        agent = job["agent"]
        self._finished.labels(agent, job["status"]).inc()
        if job["started_at"] is not None:
            run_ms = max(job["completed_at"] - job["started_at"], 0)
            self._seconds.labels(agent).inc(run_ms / SECOND_MS)
        if job["usage"] is not None:
            usage = _decode_usage(job["usage"])
            self._tokens.labels(agent, "input").inc(usage.input_tokens)
            self._tokens.labels(agent, "output").inc(usage.output_tokens)
            self._cost.labels(agent).inc(usage.cost_usd)


class JobMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._waiting = gauge("agentjobs_queue_depth", "Jobs waiting for a worker.")
        self._oldest = gauge(
            "agentjobs_queue_oldest_seconds", "Waiting time of the longest-waiting job."
        )
        self._active = gauge("agentjobs_jobs_active", "Jobs that a worker has claimed.")
        self._finished = Counter(
            "agentjobs_jobs_finished",
            "Jobs finished since this process started, by outcome.",
            ("status", "code"),
            registry=registry,
        )
        self._wait = Histogram(
            "agentjobs_job_wait_seconds",
            "Time from queued to the start of the agent, for finished jobs.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self._duration = Histogram(
            "agentjobs_job_duration_seconds",
            "Time from the start of the agent to the outcome.",
            ("status",),
            buckets=_DURATION_SECONDS,
            registry=registry,
        )
        self._agents = AgentMetrics(registry)
        self._lock = asyncio.Lock()
        self._new = FinishedRows("completed_at")

    async def refresh(self, db: Database) -> None:
        # Two concurrent scrapes would count the same jobs twice.
        async with self._lock:
            now = await db.clock_ms()
            await self._read_queue(db, now)
            await self._read_finished(db, now)

    async def _read_queue(self, db: Database, now: int) -> None:
        rows = await db.fetch_all(
            "SELECT COUNT(*) AS waiting, MIN(j.queued_at) AS oldest,"
            " (SELECT COUNT(*) FROM job_queue WHERE lease_owner IS NOT NULL) AS active"
            " FROM job_queue q CROSS JOIN jobs j WHERE q.lease_owner IS NULL AND j.id = q.job_id"
        )
        queue = rows[0]
        self._waiting.set(queue["waiting"])
        self._active.set(queue["active"])
        oldest = queue["oldest"]
        waited_ms = 0 if oldest is None else max(now - oldest, 0)
        self._oldest.set(waited_ms / SECOND_MS)

    async def _read_finished(self, db: Database, now: int) -> None:
        async def read(since: int) -> list[Row]:
            return await db.fetch_all(
                "SELECT id, agent, status, error_code, queued_at, started_at, completed_at, usage"
                " FROM jobs WHERE completed_at > :since",
                since=since,
            )

        for row in await self._new.new(now, read):
            self._count(row)

    def _count(self, row: Row) -> None:
        self._finished.labels(row["status"], row["error_code"] or "").inc()
        self._agents.count(row)
        started_at = row["started_at"]
        if started_at is not None:
            self._wait.observe(max(started_at - row["queued_at"], 0) / SECOND_MS)
            seconds = max(row["completed_at"] - started_at, 0) / SECOND_MS
            self._duration.labels(row["status"]).observe(seconds)
