"""Limits the disk space that the `local` repositories of one organization take."""

import asyncio
import time
from collections import Counter

from agentjobs.local_git import repositories
from agentjobs.store.database import Database
from agentjobs_runtime.fair_slots import FairSlots
from agentjobs_runtime.files.copying import measure_tree
from agentjobs_runtime.free_space import MIB
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_MEASURED_AT_ONCE = 4
_VALID_SECONDS = 60.0
# After a push, which git may complete with objects that were not sent.
_SOON_SECONDS = 5.0


class RepositoryQuota:
    """Sizes are measured once a minute, and soon after a change."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._root = settings.repositories_path
        self._max_bytes = settings.limit_organization_disk_mib * MIB
        self._used: Counter[str] = Counter()
        self._valid_until: dict[str, float] = {}
        self._slots = FairSlots(_MEASURED_AT_ONCE, per_organization=1)

    async def check(self, organization_id: str) -> int:
        """The bytes that are left. Raises `disk_quota_exceeded` if there are none."""
        async with self._slots.hold(organization_id):
            if time.monotonic() >= self._valid_until.get(organization_id, 0):
                await self._measure(organization_id)
        left_bytes = self._max_bytes - self._used[organization_id]
        if left_bytes <= 0:
            raise Problem(
                "disk_quota_exceeded",
                "The repositories of this organization take more disk space than"
                f" {self._max_bytes // MIB} MiB. The operator can purge some of them or raise"
                " limit_organization_disk_mib.",
            )
        return left_bytes

    def add(self, organization_id: str, size_bytes: int) -> None:
        """Count what was received until all is measured again."""
        self._used[organization_id] += size_bytes
        valid_until = self._valid_until.get(organization_id, 0)
        self._valid_until[organization_id] = min(valid_until, time.monotonic() + _SOON_SECONDS)

    async def _measure(self, organization_id: str) -> None:
        # The files of disconnected ones stay until they are purged.
        rows = await self._db.fetch_all(
            "SELECT id FROM repos WHERE organization_id = :organization_id AND platform = 'local'",
            organization_id=organization_id,
        )
        paths = [repositories.path(self._root, row["id"]) for row in rows]
        # A push that ends meanwhile shortens it.
        self._valid_until[organization_id] = time.monotonic() + _VALID_SECONDS
        self._used[organization_id] = await asyncio.to_thread(
            lambda: sum(measure_tree(path)[1] for path in paths)
        )
