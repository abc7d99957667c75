"""Copies ahead, so that a job need not wait: made when one is over, or mended from what it used.

A spare belongs to the service until it is handed over. One that an agent had before has been
compared with its template, byte by byte.
"""

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentjobs.workspace.cache import Item
from agentjobs.workspace.removal import remove
from agentjobs.workspace.threads import to_its_end

MAX_SPARES = 8

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory with `tree/` and `index`; `entries` and `size_bytes` are about the tree's."""

    directory: Path
    repo_id: str
    commit: str
    entries: int
    size_bytes: int

    @property
    def key(self) -> Key:
        return self.repo_id, self.commit


class Spares:
    """`make` and `mend` are blocking; they give None and False when they cannot.

    `added` is told the size of each that is kept.
    """

    def __init__(
        self,
        make: Callable[[str, str], Copy | None],
        mend: Callable[[Copy, int], bool],
        added: Callable[[int], None],
    ) -> None:
        self._make = make
        self._mend = mend
        self._added = added
        self._kept: dict[Copy, int] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._mending: dict[asyncio.Task[None], Key] = {}
        self._waiting: Counter[Key] = Counter()
        # One core is left to the jobs.
        self._turn = asyncio.Semaphore(1)

    @property
    def kept(self) -> tuple[Copy, ...]:
        """Those kept longest first."""
        return tuple(self._kept)

    async def take(self, repo_id: str, commit: str) -> Copy | None:
        """One that is there, or that is being mended, which takes less time than a new copy."""
        key = repo_id, commit
        while (spare := self._newest(key)) is None:
            soon = [task for task, of_key in self._mending.items() if of_key == key]
            if self._waiting[key] >= len(soon):
                return None
            self._waiting[key] += 1
            try:
                await asyncio.wait(soon, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting[key] -= 1
        del self._kept[spare]
        return spare

    async def items(self) -> list[Item]:
        return [
            Item(
                spare.repo_id,
                f"a spare copy of {spare.repo_id}",
                spare.size_bytes,
                kept_at_ns,
                functools.partial(self._drop, spare),
            )
            for spare, kept_at_ns in self._kept.items()
        ]

    def replenish(self, repo_id: str, commit: str) -> None:
        """In the background, unless it is there or one is being made already."""
        if self._making or self._newest((repo_id, commit)) is not None:
            return
        task = asyncio.create_task(self._add(repo_id, commit))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    def give_back(self, copy: Copy, copied_at_ns: int) -> None:
        """A copy whose job is over; mended in the background, or removed."""
        task = asyncio.create_task(self._mend_or_remove(copy, copied_at_ns))
        self._mending[task] = copy.key
        task.add_done_callback(self._mending.pop)

    async def settle(self) -> None:
        """Wait until nothing is being made or mended."""
        while busy := {*self._making, *self._mending}:
            await asyncio.wait(busy)

    def _newest(self, key: Key) -> Copy | None:
        return next((spare for spare in reversed(self._kept) if spare.key == key), None)

    async def _add(self, repo_id: str, commit: str) -> None:
        spare = await to_its_end(self._make, repo_id, commit)
        if spare is not None:
            await self._keep(spare)

    async def _mend_or_remove(self, copy: Copy, copied_at_ns: int) -> None:
        async with self._turn:
            is_mended = await to_its_end(self._mend, copy, copied_at_ns)
        if is_mended:
            await self._keep(copy)
        else:
            await to_its_end(remove, copy.directory)
            self._added(0)
            self.replenish(*copy.key)

    async def _keep(self, spare: Copy) -> None:
        self._kept[spare] = time.time_ns()
        outdated = [
            other
            for other in self._kept
            if other.repo_id == spare.repo_id and other.commit != spare.commit
        ]
        too_many = list(self._kept)[: max(0, len(self._kept) - MAX_SPARES)]
        self._added(spare.size_bytes)
        for other in (*outdated, *too_many):
            await self._drop(other)

    async def _drop(self, spare: Copy) -> bool:
        if spare not in self._kept:
            return False
        del self._kept[spare]
        await to_its_end(remove, spare.directory)
        return True
