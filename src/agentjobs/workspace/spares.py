"""One copy ahead per repository: made when a job is over, so that the next one need not wait.

A spare belongs to the service until it is handed over; nothing that runs in a sandbox has seen it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentjobs.workspace.removal import remove
from agentjobs.workspace.threads import to_its_end

MAX_SPARES = 4


@dataclass(frozen=True, slots=True)
class Copy:
    """A directory with `tree/` and `index`; `entries` is about how many files the tree has."""

    directory: Path
    commit: str
    entries: int


class Spares:
    """`make` is blocking, and gives None when it cannot."""

    def __init__(self, make: Callable[[str, str], Copy | None]) -> None:
        self._make = make
        self._by_repo: dict[str, Copy] = {}
        self._making: dict[str, asyncio.Task[None]] = {}

    def take(self, repo_id: str, commit: str) -> Copy | None:
        spare = self._by_repo.get(repo_id)
        if spare is None or spare.commit != commit:
            return None
        del self._by_repo[repo_id]
        return spare

    def replenish(self, repo_id: str, commit: str) -> None:
        """In the background, unless it is there or one is being made already."""
        spare = self._by_repo.get(repo_id)
        if self._making or (spare is not None and spare.commit == commit):
            return
        self._making[repo_id] = asyncio.create_task(self._add(repo_id, commit))

    async def settle(self) -> None:
        """Wait until nothing is being made."""
        await asyncio.gather(*self._making.values(), return_exceptions=True)

    async def _add(self, repo_id: str, commit: str) -> None:
        try:
            spare = await to_its_end(self._make, repo_id, commit)
            if spare is not None:
                await self._keep(repo_id, spare)
        finally:
            del self._making[repo_id]

    async def _keep(self, repo_id: str, spare: Copy) -> None:
        outdated = self._by_repo.pop(repo_id, None)
        if outdated is None and len(self._by_repo) >= MAX_SPARES:
            outdated = self._by_repo.pop(next(iter(self._by_repo)))
        self._by_repo[repo_id] = spare
        if outdated is not None:
            await to_its_end(remove, outdated.directory)
