"""What waits to be sent and which endpoints take nothing, read from the store like the queue."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.identifiers import time_of
from agentjobs.store.database import Database, StoreUnavailable

# Only what the sender's indexes hold, since everything that waits is counted. A first attempt is
# due since its event happened, and the identifier tells when that was.
_LANES: Mapping[str, str] = {
    "first": "MIN(id) AS oldest FROM deliveries WHERE attempts = 0",
    "retry": "MIN(due_at) AS oldest FROM deliveries WHERE attempts > 0",
}
_STATES = ("enabled", "by_hand", "gone", "failing")


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge(
            "agentjobs_webhook_deliveries_waiting",
            "Deliveries that wait for their first attempt, or for another one.",
            ("lane",),
            registry=registry,
        )
        self._overdue = Gauge(
            "agentjobs_webhook_oldest_due_seconds",
            "How long the oldest waits: since its event, or since it was due for another attempt.",
            ("lane",),
            registry=registry,
        )
        self._active = Gauge(
            "agentjobs_webhook_deliveries_active",
            "Deliveries that a sender has in hand.",
            registry=registry,
        )
        self._endpoints = Gauge(
            "agentjobs_webhook_endpoints",
            "Endpoints that are enabled, or disabled for that reason.",
            ("state",),
            registry=registry,
        )

    async def refresh(self, db: Database) -> None:
        try:
            for lane in _LANES:
                await self._read_lane(db, lane)
            await self._read_active(db)
            await self._read_endpoints(db)
        except StoreUnavailable:
            # The gauge of the store itself tells that these numbers are old.
            return

    async def _read_lane(self, db: Database, lane: str) -> None:
        rows = await db.fetch_all(
            f"SELECT COUNT(*) AS waiting, {_LANES[lane]}"
            " AND status = 'pending' AND lease_owner IS NULL"
        )
        self._waiting.labels(lane).set(rows[0]["waiting"])
        self._overdue.labels(lane).set(_overdue_ms(rows[0]["oldest"]) / SECOND_MS)

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
        found = {row["state"]: row["endpoints"] for row in rows}
        for state in _STATES:
            self._endpoints.labels(state).set(found.get(state, 0))


def _overdue_ms(oldest: str | int | None) -> int:
    """Of what is due since then; an identifier stands for its time."""
    if oldest is None:
        return 0
    return max(now_ms() - (time_of(oldest) if isinstance(oldest, str) else oldest), 0)
