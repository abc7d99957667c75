"""Drops what a worker has cached of repositories that were disconnected or deleted.

Their identifiers are never used again: a repository that is connected again gets a new one.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from agentjobs_runtime.protocol.messages import DISCONNECTED_TOPIC, FindDeletedRepos
from agentjobs_worker.link.protocol import Link

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

    def __init__(self, link: Link, caches: Sequence[RepoCache]) -> None:
        self._link = link
        self._caches = caches

    async def run(self) -> None:
        with self._link.changes.listen(DISCONNECTED_TOPIC) as signal:
            while True:
                deleted = [await drop_deleted_repos(self._link, cache) for cache in self._caches]
                await asyncio.sleep(_PAUSE_SECONDS)
                await signal.wait(_RETRY_SECONDS if any(deleted) else _INTERVAL_SECONDS)


async def drop_deleted_repos(link: Link, cache: RepoCache) -> set[str]:
    """Returns the repositories that were deleted: something of them may have been in use."""
    cached = await cache.cached_repos()
    if not cached:
        return cached
    if deleted := await link.call(FindDeletedRepos(cached)):
        await cache.drop_repos(deleted)
    return deleted
