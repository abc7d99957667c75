"""Follows the platforms: syncs the repositories that are due.

Runs in every process with an API; each repository is synced by one of them, under a lease.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from agentjobs.platform_sync.claims import DueSync, SyncClaim, claim_due_sync
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.repos.queues import SYNC, SYNC_TOPIC
from agentjobs.store.changes import Signal
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.store.leases import run_renewing
from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.outage_log import outages
from agentjobs_runtime.protocol.errors import ClaimLost

MAX_CONCURRENT = 8
# A slow platform must not keep those of other organizations waiting.
MAX_PER_ORGANIZATION = 3
MAX_PER_CONNECTION = 2
# A sync that takes longer fetches something large. It counts against its organization and
# connection only, unless there are too many such syncs.
LONG_SECONDS = 150.0
MAX_LONG = 24

_POLL_SECONDS = 5.0
_RENEW_SECONDS = 10.0
_INTERNAL_ERROR = "An internal error occurred; see the service's log. The sync is repeated later."
_log = logging.getLogger(__name__)


class RunningSync(msgspec.Struct, frozen=True):
    due: DueSync
    started_at: float


class PlatformLoop:
    name = "platforms"

    def __init__(
        self,
        db: Database,
        sync: PlatformSync,
        free_space: FreeSpace | None = None,
        *,
        is_able: Callable[[], bool] = lambda: True,
    ) -> None:
        """Without `free_space`, a full disk stops nothing. While `is_able` returns False, the
        repositories are left to other processes."""
        self._db = db
        self._sync = sync
        self._free_space = free_space
        self._is_able = is_able
        self._running: dict[asyncio.Task[None], RunningSync] = {}

    async def run(self) -> None:
        with self._db.changes.listen(SYNC_TOPIC) as signal:
            try:
                while True:
                    await self._start_due(signal)
                    await signal.wait(_POLL_SECONDS)
            finally:
                await self._stop()

    async def sync_next(self) -> bool:
        """False if nothing is due that is not being synced already."""
        due = await self._claim()
        if due is not None:
            await self._run_sync(due)
        return due is not None

    async def _start_due(self, signal: Signal) -> None:
        while self._has_capacity() and (due := await self._claim()) is not None:
            task = asyncio.create_task(self._run_sync(due), name=due.repo.id)
            self._running[task] = RunningSync(due, time.monotonic())
            task.add_done_callback(lambda done: self._on_end(done, signal))

    def _has_capacity(self) -> bool:
        if not self._is_able():
            return False
        # A sync fetches, and would fill the disk further.
        if self._free_space is not None and self._free_space.is_low:
            return False
        long_before = time.monotonic() - LONG_SECONDS
        long = sum(running.started_at < long_before for running in self._running.values())
        return len(self._running) - min(long, MAX_LONG) < MAX_CONCURRENT

    def _on_end(self, task: asyncio.Task[None], signal: Signal) -> None:
        del self._running[task]
        # Others may start now, and the repository may be due again.
        signal.set()

    async def _claim(self) -> DueSync | None:
        repos = [running.due.repo for running in self._running.values()]
        by_organization = Counter(repo.organization_id for repo in repos)
        by_connection = Counter(repo.connection_id for repo in repos)
        crowded = [
            *(owner for owner, count in by_organization.items() if count >= MAX_PER_ORGANIZATION),
            *(key for key, count in by_connection.items() if count >= MAX_PER_CONNECTION),
        ]
        return await claim_due_sync(self._db, [repo.id for repo in repos], crowded)

    async def _run_sync(self, due: DueSync) -> None:
        """A sync whose failure cannot be recorded is due again when the lease ends."""
        claim = SyncClaim(self._db, due)
        fields = {"repo_id": due.repo.id}
        try:
            # A first fetch may take longer than the lease.
            await run_renewing(self._sync.sync(claim), claim.renew, _RENEW_SECONDS, SYNC.lease_ms)
        except StoreUnavailable as error:
            outages.report(self.name, error)
        except ClaimLost:
            _log.warning("another process syncs the repository", extra={"fields": fields})
        except Exception:  # noqa: BLE001 - one repository must not block the others
            _log.exception("a repository was not synced", extra={"fields": fields})
            await self._fail(claim)

    async def _fail(self, claim: SyncClaim) -> None:
        try:
            await self._db.transact(claim.fail, _INTERNAL_ERROR)
        except StoreUnavailable as error:
            outages.report(self.name, error)

    async def _stop(self) -> None:
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
