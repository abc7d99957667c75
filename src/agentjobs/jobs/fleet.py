"""The workers that are alive and how long jobs take: read at most once a second, from the store."""

import time

import msgspec

from agentjobs.clock import now_ms
from agentjobs.store.database import Database

ALIVE_WITHIN_MS = 15_000
_REMEMBERED_SECONDS = 1.0
_DEFAULT_DURATION_MS = 60_000


class FleetState(msgspec.Struct, frozen=True):
    slots: int
    agents: frozenset[str]
    typical_duration_ms: int

    def can_run(self, agent: str) -> bool:
        return agent in self.agents


class Fleet:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._state: FleetState | None = None
        self._read_at = 0.0

    async def state(self) -> FleetState:
        now = time.monotonic()
        if self._state is None or now - self._read_at > _REMEMBERED_SECONDS:
            self._read_at = now
            self._state = await self._read()
        return self._state

    def forget(self) -> None:
        """Look again at the next question."""
        self._state = None

    async def _read(self) -> FleetState:
        workers = await self._db.fetch_all(
            "SELECT slots, agents FROM workers WHERE heartbeat_at > :since",
            since=now_ms() - ALIVE_WITHIN_MS,
        )
        recent = await self._db.fetch_all(
            "SELECT started_at, completed_at FROM jobs WHERE completed_at IS NOT NULL"
            " ORDER BY completed_at DESC LIMIT 20"
        )
        took = [row["completed_at"] - row["started_at"] for row in recent if row["started_at"]]
        agents = frozenset(
            name for worker in workers for name in msgspec.json.decode(worker["agents"])
        )
        return FleetState(
            slots=sum(worker["slots"] for worker in workers),
            agents=agents,
            typical_duration_ms=sum(took) // len(took) if took else _DEFAULT_DURATION_MS,
        )
