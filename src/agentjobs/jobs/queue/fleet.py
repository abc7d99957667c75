"""The workers that are alive, what they could start next and how long jobs take.

Read from the store at most once a second: good enough for an estimate and a reason.
"""

import time

import msgspec

from agentjobs.clock import now_ms
from agentjobs.organizations.plans import Plans
from agentjobs.settings import Settings
from agentjobs.store.database import Database

_REMEMBERED_SECONDS = 1.0
_DEFAULT_DURATION_MS = 60_000
# A worker beats every `lease_renew_seconds`; with its lease it has lost its place here.
_BEATS_MISSED = 1.5
_ALIVE = (
    "SELECT slots, agents FROM workers WHERE heartbeat_at > /*sqlite :now */"
    "/*postgresql CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) */ - :silent_ms"
)
_WAITING = (
    "SELECT j.organization_id, o.plan, COUNT(*) AS waiting,"
    " (SELECT COUNT(*) FROM jobs a WHERE a.lease_owner IS NOT NULL"
    "  AND a.organization_id = j.organization_id) AS active"
    " FROM jobs j JOIN organizations o ON o.id = j.organization_id"
    " WHERE j.status = 'queued' AND j.lease_owner IS NULL GROUP BY j.organization_id, o.plan"
)
_RECENT = (
    "SELECT started_at, completed_at FROM jobs WHERE completed_at IS NOT NULL"
    " ORDER BY completed_at DESC LIMIT 20"
)


class FleetState(msgspec.Struct, frozen=True):
    """`startable` are waiting jobs per organization that its plan would let start now."""

    slots_of: dict[str, int]
    startable: dict[str, int]
    active: int
    typical_duration_ms: int

    def slots_for(self, agent: str) -> int:
        """0 when no worker that is alive can run it."""
        return self.slots_of.get(agent, 0)

    def startable_of_others(self, organization_id: str) -> int:
        return sum(self.startable.values()) - self.startable.get(organization_id, 0)


class Fleet:
    def __init__(self, db: Database, settings: Settings, plans: Plans) -> None:
        self._db = db
        self._plans = plans
        self._silent_ms = int(settings.lease_seconds * _BEATS_MISSED * 1_000)
        self._state: FleetState | None = None
        self._read_at = 0.0

    async def state(self) -> FleetState:
        now = time.monotonic()
        if self._state is None or now - self._read_at > _REMEMBERED_SECONDS:
            self._read_at = now
            self._state = FleetState(
                slots_of=await self._slots(),
                startable=await self._startable(),
                active=await self._active(),
                typical_duration_ms=await self._typical_duration_ms(),
            )
        return self._state

    def forget(self) -> None:
        """Look again at the next question."""
        self._state = None

    async def _slots(self) -> dict[str, int]:
        slots: dict[str, int] = {}
        for worker in await self._db.fetch_all(_ALIVE, now=now_ms(), silent_ms=self._silent_ms):
            for agent in msgspec.json.decode(worker["agents"], type=list[str]):
                slots[agent] = slots.get(agent, 0) + worker["slots"]
        return slots

    async def _startable(self) -> dict[str, int]:
        startable = {}
        for row in await self._db.fetch_all(_WAITING):
            places = self._plans.concurrent_jobs(row["plan"]) - row["active"]
            startable[row["organization_id"]] = max(min(row["waiting"], places), 0)
        return startable

    async def _active(self) -> int:
        rows = await self._db.fetch_all(
            "SELECT COUNT(*) AS active FROM jobs WHERE lease_owner IS NOT NULL"
        )
        active: int = rows[0]["active"]
        return active

    async def _typical_duration_ms(self) -> int:
        recent = await self._db.fetch_all(_RECENT)
        took = [row["completed_at"] - row["started_at"] for row in recent if row["started_at"]]
        return sum(took) // len(took) if took else _DEFAULT_DURATION_MS
