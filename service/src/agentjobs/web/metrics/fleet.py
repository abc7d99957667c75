"""Metrics of the fleet: workers, pauses, outages and waiting jobs by plan, read at each scrape."""

from collections import Counter
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from agentjobs.jobs.operations.workers import STATUSES, list_worker_views
from agentjobs.organizations.pauses import load_pauses
from agentjobs.store.database import Database
from agentjobs_runtime.settings import Settings


class FleetMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._workers = gauge("agentjobs_workers", "Registered workers by state.", ("state",))
        self._slots = gauge("agentjobs_worker_slots", "Slots of workers by state.", ("state",))
        self._odd = gauge(
            "agentjobs_workers_with_odd_configuration",
            "Workers whose version or configuration differs from that of most processes.",
        )
        self._paused = gauge("agentjobs_paused", "1 while the whole service is paused.")
        self._paused_organizations = gauge(
            "agentjobs_organizations_paused", "Organizations that are paused."
        )
        self._outages = gauge(
            "agentjobs_platform_outages",
            "Platforms, repositories on them, and trackers that do not respond.",
        )
        self._kept = gauge(
            "agentjobs_kept_work", "Jobs whose finished work is kept until it can be published."
        )
        self._waiting = gauge(
            "agentjobs_queue_depth_by_plan",
            "Jobs waiting for a worker, by the plan of their organization.",
            ("plan",),
        )

    async def refresh(self, db: Database, settings: Settings) -> None:
        await self._read_workers(db, settings)
        await self._read_pauses(db)
        await self._read_outages(db)
        await self._read_queue(db, settings)

    async def _read_workers(self, db: Database, settings: Settings) -> None:
        workers, slots = Counter[str](), Counter[str]()
        views = await list_worker_views(db, settings)
        for view in views:
            workers[view.status] += 1
            slots[view.status] += view.slots
        for status in STATUSES:
            self._workers.labels(status).set(workers[status])
            self._slots.labels(status).set(slots[status])
        self._odd.set(sum(view.has_odd_configuration for view in views))

    async def _read_pauses(self, db: Database) -> None:
        pauses = await load_pauses(db)
        self._paused.set(pauses.service_since is not None)
        self._paused_organizations.set(len(pauses.organizations))

    async def _read_outages(self, db: Database) -> None:
        [row] = await db.fetch_all(
            "SELECT (SELECT COUNT(*) FROM platform_outages) AS outages,"
            " (SELECT COUNT(*) FROM kept_work) AS kept"
        )
        self._outages.set(row["outages"])
        self._kept.set(row["kept"])

    async def _read_queue(self, db: Database, settings: Settings) -> None:
        rows = await db.fetch_all(
            "SELECT o.plan, COUNT(*) AS waiting FROM job_queue q"
            " JOIN organizations o ON o.id = q.organization_id"
            " WHERE q.lease_owner IS NULL GROUP BY o.plan"
        )
        waiting = {row["plan"]: row["waiting"] for row in rows}
        for plan in settings.plans:
            self._waiting.labels(plan.name).set(waiting.get(plan.name, 0))
