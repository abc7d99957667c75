"""The live workers, the jobs they could start and how long jobs take.

Cached for a second: precise enough for estimates and queue reasons.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from agentjobs.clock import now_ms
from agentjobs.organizations.pauses import service_paused_since
from agentjobs.organizations.plans import Plans
from agentjobs.settings import Settings
from agentjobs.store.database import Database, Row
from agentjobs.store.database_clock import DATABASE_NOW

# The reason that a worker reports for each of its agents.
DISK_FULL = "the disk of this worker is nearly full"
_CACHE_SECONDS = 1.0
_DEFAULT_DURATION_MS = 60_000
_LEASES_WITHOUT_HEARTBEAT = 1.5
# Drained workers claim nothing.
_ALIVE = (
    "SELECT slots, agents, tags, unready FROM workers"
    f" WHERE heartbeat_at > {DATABASE_NOW} - :silent_ms"
    " AND drain_requested_at IS NULL"
)
_WAITING = (
    "SELECT j.organization_id, o.plan, COUNT(*) AS waiting,"
    # Without the hint SQLite reads all jobs of the organization.
    " (SELECT COUNT(*) FROM jobs a /*sqlite INDEXED BY jobs_leased */"
    "  WHERE a.lease_owner IS NOT NULL"
    "  AND a.organization_id = j.organization_id) AS active"
    " FROM jobs j JOIN organizations o ON o.id = j.organization_id"
    " WHERE j.status = 'queued' AND j.lease_owner IS NULL GROUP BY j.organization_id, o.plan"
)
_RECENT = (
    "SELECT started_at, completed_at FROM jobs WHERE completed_at IS NOT NULL"
    " ORDER BY completed_at DESC LIMIT 20"
)


def silent_ms(settings: Settings) -> int:
    """A worker without a heartbeat for this long is not counted."""
    return int(settings.lease_seconds * _LEASES_WITHOUT_HEARTBEAT * 1_000)


class LiveWorker(msgspec.Struct, frozen=True):
    slots: int
    tags: frozenset[str]
    agents: frozenset[str]
    disk_full_agents: frozenset[str]


class FleetState(msgspec.Struct, frozen=True):
    """`startable` counts the waiting jobs per organization that its plan lets start now.

    The last fields are sums that every created job needs.
    """

    workers: tuple[LiveWorker, ...]
    slots_of: dict[str, int]
    startable: dict[str, int]
    active_by_agent: dict[str, int]
    typical_duration_ms: int
    # Since when the whole service is paused.
    paused_at: int | None = None
    has_outages: bool = False
    active: int = 0
    all_startable: int = 0

    def slots_for(self, agent: str, tags: Collection[str] = ()) -> int:
        """0 when no live worker with these tags can run the agent."""
        if not tags:
            return self.slots_of.get(agent, 0)
        return sum(
            worker.slots
            for worker in self.workers
            if agent in worker.agents and worker.tags.issuperset(tags)
        )

    def queue_reason(self, agent: str, tags: Collection[str] = ()) -> str | None:
        """Why no worker can start a job of this agent on a repository that requires the tags."""
        if self.slots_for(agent, tags):
            return None
        for worker in self.workers:
            if agent in worker.disk_full_agents and worker.tags.issuperset(tags):
                return "disk_full"
        return "no_worker"

    def startable_of_others(self, organization_id: str) -> int:
        return self.all_startable - self.startable.get(organization_id, 0)


class Fleet:
    def __init__(self, db: Database, settings: Settings, plans: Plans) -> None:
        self._db = db
        self._plans = plans
        self._silent_ms = silent_ms(settings)
        self._state: FleetState | None = None
        self._read_at = 0.0

    async def state(self) -> FleetState:
        now = time.monotonic()
        if self._state is None or now - self._read_at > _CACHE_SECONDS:
            self._read_at = now
            workers = await self._workers()
            startable = await self._startable()
            active_by_agent = await self._active_by_agent()
            self._state = FleetState(
                workers=workers,
                slots_of=_slots_of(workers),
                startable=startable,
                active_by_agent=active_by_agent,
                typical_duration_ms=await self._typical_duration_ms(),
                has_outages=await self._has_outages(),
                paused_at=await service_paused_since(self._db),
                active=sum(active_by_agent.values()),
                all_startable=sum(startable.values()),
            )
        return self._state

    async def _has_outages(self) -> bool:
        return bool(
            await self._db.fetch_all(
                "SELECT 1 AS found WHERE EXISTS (SELECT 1 FROM platform_outages)"
                " OR EXISTS (SELECT 1 FROM environment_holds)"
            )
        )

    def forget(self) -> None:
        """Read the state again on next use."""
        self._state = None

    async def _workers(self) -> tuple[LiveWorker, ...]:
        rows = await self._db.fetch_all(_ALIVE, now=now_ms(), silent_ms=self._silent_ms)
        return tuple(map(_live_worker, rows))

    async def _startable(self) -> dict[str, int]:
        startable = {}
        for row in await self._db.fetch_all(_WAITING):
            free = self._plans.concurrent_jobs(row["plan"]) - row["active"]
            startable[row["organization_id"]] = max(min(row["waiting"], free), 0)
        return startable

    async def _active_by_agent(self) -> dict[str, int]:
        rows = await self._db.fetch_all(
            "SELECT agent, COUNT(*) AS active FROM jobs WHERE lease_owner IS NOT NULL"
            " GROUP BY agent"
        )
        return {row["agent"]: row["active"] for row in rows}

    async def _typical_duration_ms(self) -> int:
        recent = await self._db.fetch_all(_RECENT)
        durations = [row["completed_at"] - row["started_at"] for row in recent if row["started_at"]]
        return sum(durations) // len(durations) if durations else _DEFAULT_DURATION_MS


_decode_tags = msgspec.json.Decoder(list[str]).decode


def decode_tags(text: str | None) -> Sequence[str]:
    """The tags that a repository requires, from its column."""
    # Most repositories require none.
    return () if text is None or text == "[]" else _decode_tags(text)


def _slots_of(workers: Iterable[LiveWorker]) -> dict[str, int]:
    slots = Counter[str]()
    for worker in workers:
        for agent in worker.agents:
            slots[agent] += worker.slots
    return slots


def _live_worker(row: Row) -> LiveWorker:
    unready = msgspec.json.decode(row["unready"], type=dict[str, str])
    return LiveWorker(
        row["slots"],
        msgspec.json.decode(row["tags"], type=frozenset[str]),
        msgspec.json.decode(row["agents"], type=frozenset[str]),
        frozenset(agent for agent, reason in unready.items() if reason == DISK_FULL),
    )
