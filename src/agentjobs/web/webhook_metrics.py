"""What waits to be sent and which endpoints take nothing, read from the store like the queue."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from agentjobs.clock import SECOND_MS, now_ms
from agentjobs.store.database import Database, StoreUnavailable

# The indexes of the sender; what nobody has attempted yet is due since its event happened.
_LANES: Mapping[str, str] = {"first": "attempts = 0", "retry": "attempts > 0"}
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
            "How long the delivery that is due longest has been due.",
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
            "SELECT COUNT(*) AS waiting, MIN(due_at) AS due_at FROM deliveries"
            f" WHERE status = 'pending' AND lease_owner IS NULL AND {_LANES[lane]}"
        )
        due_at = rows[0]["due_at"]
        overdue_ms = 0 if due_at is None else max(now_ms() - due_at, 0)
        self._waiting.labels(lane).set(rows[0]["waiting"])
        self._overdue.labels(lane).set(overdue_ms / SECOND_MS)

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
