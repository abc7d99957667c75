"""Renews the leases of this worker's jobs, whatever the jobs are doing.

A worker that cannot renew stops its agents before the leases expire, so that no job runs twice.
"""

import asyncio
import logging
import time

from agentjobs.jobs.outcomes import Abandoned, Cancelled
from agentjobs.jobs.queue import leases
from agentjobs.loops.job_loop import JobLoop
from agentjobs.settings import Settings
from agentjobs.store.database import Database, StoreError

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
# Time to stop the agents before their leases expire.
_MARGIN_SECONDS = 1.5


class LeaseLoop:
    name = "leases"

    def __init__(
        self, db: Database, settings: Settings, worker: leases.WorkerInfo, jobs: JobLoop
    ) -> None:
        self._db = db
        self._settings = settings
        self._worker = worker
        self._jobs = jobs
        self._renewed_at = time.monotonic()

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                # A database that hangs must not block this loop past the lease either.
                async with asyncio.timeout(self._give_up_at - began):
                    await self.renew()
                self._renewed_at = began
                await asyncio.sleep(self._settings.lease_renew_seconds)
            except (StoreError, TimeoutError) as error:
                _log.warning("could not renew leases: %s", str(error) or "timed out")
                if time.monotonic() >= self._give_up_at:
                    self._jobs.stop_all(Abandoned())
                    self._renewed_at = time.monotonic()
                await asyncio.sleep(_RETRY_SECONDS)

    async def renew(self) -> None:
        jobs = self._jobs.active_jobs
        seconds = self._settings.lease_seconds
        renewal = await leases.renew(self._db, self._worker, jobs, seconds)
        lost = frozenset(job.claim for job in jobs) - renewal.renewed
        if lost:
            _log.warning("lost the claims on %s", ", ".join(job_id for job_id, _ in sorted(lost)))
        self._jobs.stop_claims(lost, Abandoned())
        self._jobs.stop_claims(renewal.cancel_requested, Cancelled())

    @property
    def _give_up_at(self) -> float:
        margin = min(_MARGIN_SECONDS, self._settings.lease_seconds / 4)
        return self._renewed_at + self._settings.lease_seconds - margin
