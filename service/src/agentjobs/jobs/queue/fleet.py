"""The live workers and the queue before them.

Cached for a second: precise enough for estimates and queue reasons.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Self

import msgspec

from agentjobs.fleet.processes import worker_silent_ms
from agentjobs.jobs.queue.queue_model import NewJobs, Pool, Queue
from agentjobs.jobs.queue.queue_reader import QueueReader
from agentjobs.organizations.pauses import service_paused_since
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Row
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.worker_part.agents import Catalog
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.settings import Settings

# The reason that a worker reports for each of its agents.
DISK_FULL = "the disk of this worker is nearly full"
_CACHE_SECONDS = 1.0
# Drained workers claim nothing.
_ALIVE = (
    "SELECT id, slots, agents, tags, unready FROM workers"
    f" WHERE heartbeat_at > {DATABASE_NOW} - :silent_ms"
    " AND drain_requested_at IS NULL"
)


class LiveWorker(msgspec.Struct, frozen=True):
    id: str
    slots: int
    tags: frozenset[str]
    agents: frozenset[str]
    disk_full_agents: frozenset[str]


class FleetState(msgspec.Struct, frozen=True):
    """`active_of` counts by organization; `free_slots_of` is by agent.

    `is_busy`: there are workers, and jobs wait or all slots of some workers are taken.
    """

    workers: Sequence[LiveWorker]
    queue: Queue
    slots_of: Counter[str]
    active_by_agent: Counter[str]
    active_of: Counter[str]
    free_slots_of: Counter[str]
    is_busy: bool
    # Since when the whole service is paused.
    paused_at: int | None
    has_outages: bool
    # The starts that were forecast from this state.
    forecasts: dict[NewJobs, list[int]]
    # How many jobs of each organization this process has created since.
    created: Counter[str]

    @classmethod
    def of(
        cls,
        workers: Sequence[LiveWorker],
        queue: Queue,
        *,
        paused_at: int | None = None,
        has_outages: bool = False,
    ) -> Self:
        active_in = Counter(job.pool for job in queue.running)
        free = [(pool, pool.slots - active_in[place]) for place, pool in enumerate(queue.pools)]
        return cls(
            workers=workers,
            queue=queue,
            slots_of=_slots_by_agent((worker.agents, worker.slots) for worker in workers),
            active_by_agent=Counter(job.agent for job in queue.running),
            active_of=Counter(job.organization_id for job in queue.running),
            free_slots_of=_slots_by_agent((pool.agents, count) for pool, count in free),
            is_busy=any(queue.backlogs or count <= 0 for _, count in free),
            paused_at=paused_at,
            has_outages=has_outages,
            forecasts={},
            created=Counter(),
        )

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


class Fleet:
    def __init__(self, db: Database, settings: Settings, plans: Plans, catalog: Catalog) -> None:
        self._db = db
        self._queue = QueueReader(db, plans, catalog)
        self._silent_ms = worker_silent_ms(settings)
        self._state: FleetState | None = None
        self._read_at = 0.0

    async def state(self) -> FleetState:
        now = time.monotonic()
        if self._state is None or now - self._read_at > _CACHE_SECONDS:
            self._read_at = now
            workers = await self._workers()
            self._state = FleetState.of(
                workers,
                await self._queue.read(*build_pools(workers)),
                has_outages=await self._has_outages(),
                paused_at=await service_paused_since(self._db),
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
        """Read everything again on next use."""
        self._state = None
        self._queue.forget()

    async def _workers(self) -> tuple[LiveWorker, ...]:
        rows = await self._db.fetch_all(_ALIVE, now=now_ms(), silent_ms=self._silent_ms)
        return tuple(map(_live_worker, rows))


_decode_tags = msgspec.json.Decoder(list[str]).decode


def decode_tags(text: str | None) -> Sequence[str]:
    """The tags that a repository requires, from its column."""
    # Most repositories require none.
    return () if text is None or text == "[]" else _decode_tags(text)


def _slots_by_agent(slots: Iterable[tuple[frozenset[str], int]]) -> Counter[str]:
    by_agent = Counter[str]()
    for agents, count in slots:
        for agent in agents:
            by_agent[agent] += count
    return by_agent


def build_pools(workers: Sequence[LiveWorker]) -> tuple[list[Pool], dict[str, int]]:
    """The pools, and the place of each worker's."""
    slots = Counter[tuple[frozenset[str], frozenset[str]]]()
    for worker in workers:
        slots[worker.agents, worker.tags] += worker.slots
    places = {key: place for place, key in enumerate(slots)}
    pools = [Pool(count, agents, tags) for (agents, tags), count in slots.items()]
    return pools, {worker.id: places[worker.agents, worker.tags] for worker in workers}


def _live_worker(row: Row) -> LiveWorker:
    unready = msgspec.json.decode(row["unready"], type=dict[str, str])
    return LiveWorker(
        row["id"],
        row["slots"],
        msgspec.json.decode(row["tags"], type=frozenset[str]),
        msgspec.json.decode(row["agents"], type=frozenset[str]),
        frozenset(agent for agent, reason in unready.items() if reason == DISK_FULL),
    )
