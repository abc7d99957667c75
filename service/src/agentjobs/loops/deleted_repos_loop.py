"""Drops what a process has cached of repositories that were disconnected or deleted.

Their identifiers are never used again: a repository that is connected again gets a new one.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from agentjobs.repos.connect import DISCONNECTED_TOPIC
from agentjobs.store.database import Database

_INTERVAL_SECONDS = 600.0
# What is in use, or was until a moment ago, is dropped later.
_RETRY_SECONDS = 15.0
# On SQLite, every commit of another process wakes the loop.
_PAUSE_SECONDS = 2.0


class RepoCache(Protocol):
    async def cached_repos(self) -> set[str]:
        """Identifiers of the repositories that it holds something of."""

    async def drop_repos(self, repo_ids: Collection[str]) -> None:
        """Drop what is not in use."""


class DeletedReposLoop:
    name = "deleted repositories"

    def __init__(self, db: Database, caches: Sequence[RepoCache]) -> None:
        self._db = db
        self._caches = caches

    async def run(self) -> None:
        with self._db.changes.listen(DISCONNECTED_TOPIC) as signal:
            while True:
                deleted = [await drop_deleted_repos(self._db, cache) for cache in self._caches]
                await asyncio.sleep(_PAUSE_SECONDS)
                await signal.wait(_RETRY_SECONDS if any(deleted) else _INTERVAL_SECONDS)


async def drop_deleted_repos(db: Database, cache: RepoCache) -> set[str]:
    """Returns the repositories that it looked at: something of them may have been in use."""
    cached = await cache.cached_repos()
    if not cached:
        return cached
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE id IN (SELECT value FROM each(:ids))"
        " AND disconnected_at IS NULL",
        ids=list(cached),
    )
    if deleted := cached - {row["id"] for row in rows}:
        await cache.drop_repos(deleted)
    return deleted
