"""Keeps the mirrors of a service without a worker small: drops those of repositories that were
disconnected or deleted, and repacks the others."""

import asyncio

from agentjobs.repos.queries import find_deleted_repos
from agentjobs.store.database import Database
from agentjobs_runtime.clock import elapsed_ms
from agentjobs_runtime.files.cache import Cache
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_runtime.protocol.messages import DISCONNECTED_TOPIC

_INTERVAL_SECONDS = 600.0
# What is in use, or was until a moment ago, is dropped later.
_RETRY_SECONDS = 15.0
# On SQLite, every commit of another process wakes the loop.
_PAUSE_SECONDS = 2.0
_REPACK_MS = 6 * 3_600_000


class MirrorsLoop:
    name = "mirrors"

    def __init__(self, db: Database, mirrors: Mirrors, max_bytes: int) -> None:
        self._db = db
        self._mirrors = mirrors
        self._cache = Cache([mirrors], max_bytes)
        self._repacked_at = elapsed_ms()

    async def run(self) -> None:
        with self._db.changes.listen(DISCONNECTED_TOPIC) as signal:
            while True:
                deleted = await self.drop_deleted()
                await self._cache.trim()
                if elapsed_ms() - self._repacked_at >= _REPACK_MS:
                    await self._mirrors.collect_garbage()
                    self._repacked_at = elapsed_ms()
                await asyncio.sleep(_PAUSE_SECONDS)
                await signal.wait(_RETRY_SECONDS if deleted else _INTERVAL_SECONDS)

    async def drop_deleted(self) -> set[str]:
        """The repositories that were deleted: their mirrors may have been in use."""
        if not (repo_ids := await self._cache.repo_ids()):
            return repo_ids
        deleted = await find_deleted_repos(self._db, repo_ids)
        await self._cache.drop(deleted)
        return deleted
