"""Spare copies, so that a job does not wait: created when a job ends, or repaired from its tree.

A spare belongs to the service until a job takes it. A repaired one was compared with its template
byte by byte.
"""

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.files.cache import CacheItem
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.threads import run_in_thread

MAX_SPARES = 8

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory with `tree/` and `index`; `entries` and `size_bytes` are approximate."""

    directory: Path
    repo_id: str
    commit: str
    entries: int
    size_bytes: int

    @property
    def key(self) -> Key:
        return self.repo_id, self.commit


class Spares:
    """`create` and `repair` block, and return None and False if they fail.

    `on_added` receives the size of each spare that is kept.
    """

    def __init__(
        self,
        create: Callable[[str, str], Copy | None],
        repair: Callable[[Copy, int], bool],
        on_added: Callable[[int], None],
    ) -> None:
        self._create = create
        self._repair = repair
        self._on_added = on_added
        self._spares: dict[Copy, int] = {}
        self._creating: set[asyncio.Task[None]] = set()
        self._repairing: dict[asyncio.Task[None], Key] = {}
        self._waiting: Counter[Key] = Counter()
        # One repair at a time leaves cores to the jobs.
        self._repair_lock = asyncio.Semaphore(1)

    @property
    def spares(self) -> tuple[Copy, ...]:
        """Spares, the oldest first."""
        return tuple(self._spares)

    async def take(self, repo_id: str, commit: str) -> Copy | None:
        """An available spare, or one under repair, which is faster than a new copy."""
        key = repo_id, commit
        while (spare := self._newest(key)) is None:
            # The others wait for repairs that may take longer than a copy.
            in_progress = list(self._repairing.items())[:1]
            repairs = [task for task, repairing_key in in_progress if repairing_key == key]
            if self._waiting[key] >= len(repairs):
                return None
            self._waiting[key] += 1
            try:
                await asyncio.wait(repairs, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting[key] -= 1
        del self._spares[spare]
        return spare

    async def items(self) -> list[CacheItem]:
        return [
            CacheItem(
                spare.repo_id,
                f"a spare copy of {spare.repo_id}",
                spare.size_bytes,
                added_at_ns,
                functools.partial(self._drop, spare),
            )
            for spare, added_at_ns in self._spares.items()
        ]

    def replenish(self, repo_id: str, commit: str) -> None:
        """Create one in the background, unless one exists or is being created."""
        if self._creating or self._newest((repo_id, commit)) is not None:
            return
        task = asyncio.create_task(self._add(repo_id, commit))
        self._creating.add(task)
        task.add_done_callback(self._creating.discard)

    def give_back(self, copy: Copy, copied_at_ns: int) -> None:
        """Repair the copy of a finished job in the background, or remove it."""
        task = asyncio.create_task(self._repair_or_remove(copy, copied_at_ns))
        self._repairing[task] = copy.key
        task.add_done_callback(self._repairing.pop)

    async def wait_until_idle(self) -> None:
        """Wait until no spare is being created or repaired."""
        while busy := {*self._creating, *self._repairing}:
            await asyncio.wait(busy)

    def _newest(self, key: Key) -> Copy | None:
        return next((spare for spare in reversed(self._spares) if spare.key == key), None)

    async def _add(self, repo_id: str, commit: str) -> None:
        spare = await run_in_thread(self._create, repo_id, commit)
        if spare is not None:
            await self._keep(spare)

    async def _repair_or_remove(self, copy: Copy, copied_at_ns: int) -> None:
        async with self._repair_lock:
            is_repaired = await run_in_thread(self._repair, copy, copied_at_ns)
        if is_repaired:
            await self._keep(copy)
        else:
            await run_in_thread(remove, copy.directory)
            self._on_added(0)
            self.replenish(*copy.key)

    async def _keep(self, spare: Copy) -> None:
        self._spares[spare] = time.time_ns()
        outdated = [
            other
            for other in self._spares
            if other.repo_id == spare.repo_id and other.commit != spare.commit
        ]
        surplus = list(self._spares)[: max(0, len(self._spares) - MAX_SPARES)]
        self._on_added(spare.size_bytes)
        for other in (*outdated, *surplus):
            await self._drop(other)

    async def _drop(self, spare: Copy) -> bool:
        if spare not in self._spares:
            return False
        del self._spares[spare]
        await run_in_thread(remove, spare.directory)
        return True
