"""Metrics of waiting deliveries and of endpoints, read from the store at each scrape."""

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from agentjobs.store.database import Database
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.identifiers import creation_time_ms

# By kind of attempt; the label is called `lane`. Uses only the sender's indexes, because all
# waiting rows are counted. A first attempt is due since its event, whose time is in the identifier.
_OLDEST: Mapping[str, str] = {
    "first": "MIN(id) AS oldest FROM deliveries WHERE attempts = 0",
    "retry": "MIN(due_at) AS oldest FROM deliveries WHERE attempts > 0",
}
_STATES = ("enabled", "by_hand", "gone", "failing")


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._waiting = gauge(
            "agentjobs_webhook_deliveries_waiting",
            "Deliveries waiting for their first attempt or for a retry.",
            ("lane",),
        )
        self._overdue = gauge(
            "agentjobs_webhook_oldest_due_seconds",
            "Age of the oldest due delivery: since its event, or since its retry was due.",
            ("lane",),
        )
        self._active = gauge(
            "agentjobs_webhook_deliveries_active", "Deliveries that a sender has claimed."
        )
        self._endpoints = gauge(
            "agentjobs_webhook_endpoints",
            "Endpoints that are enabled, or disabled by reason.",
            ("state",),
        )

    async def refresh(self, db: Database) -> None:
        now = await db.clock_ms()
        for kind in _OLDEST:
            await self._read_waiting(db, kind, now)
        await self._read_active(db)
        await self._read_endpoints(db)

    async def _read_waiting(self, db: Database, kind: str, now: int) -> None:
        rows = await db.fetch_all(
            f"SELECT COUNT(*) AS waiting, {_OLDEST[kind]}"
            " AND status = 'pending' AND lease_owner IS NULL"
        )
        self._waiting.labels(kind).set(rows[0]["waiting"])
        self._overdue.labels(kind).set(_overdue_ms(rows[0]["oldest"], now) / SECOND_MS)

    async def _read_active(self, db: Database) -> None:
        rows = await db.fetch_all(
            "SELECT COUNT(*) AS active FROM deliveries WHERE lease_owner IS NOT NULL"
        )
        self._active.set(rows[0]["active"])

    async def _read_endpoints(self, db: Database) -> None:
        rows = await db.fetch_all(
            "SELECT COALESCE(disabled_reason, 'enabled') AS state, COUNT(*) AS endpoints"
            " FROM webhook_endpoints WHERE removed_at IS NULL GROUP BY disabled_reason"
        )
        counts = {row["state"]: row["endpoints"] for row in rows}
        for state in _STATES:
            self._endpoints.labels(state).set(counts.get(state, 0))


def _overdue_ms(oldest: str | int | None, now: int) -> int:
    """`oldest` is a time or an identifier, which contains its time."""
    if oldest is None:
        return 0
    return max(now - (creation_time_ms(oldest) if isinstance(oldest, str) else oldest), 0)
