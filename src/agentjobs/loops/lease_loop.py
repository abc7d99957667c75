"""Keeps this worker's claims alive, independent of what its jobs do.

A worker that cannot renew stops its agents before the lease ends, so the next holder is alone.
"""

import asyncio
import logging
import time

from agentjobs.jobs.queue import leases
from agentjobs.jobs.run.outcomes import Abandoned, Cancelled
from agentjobs.loops.job_loop import JobLoop
from agentjobs.settings import Settings
from agentjobs.store.database import Database, StoreError

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
# Time to kill the agents once renewing has failed for too long.
_MARGIN_SECONDS = 1.5


class LeaseLoop:
    name = "leases"

    def __init__(
        self, db: Database, settings: Settings, worker: leases.WorkerCard, jobs: JobLoop
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
                # A store that hangs must not keep us past the lease either.
                async with asyncio.timeout(self._give_up_at - began):
                    await self.renew()
                self._renewed_at = began
                await asyncio.sleep(self._settings.lease_renew_seconds)
            except (StoreError, TimeoutError) as error:
                _log.warning("leases could not be renewed: %s", str(error) or "no answer in time")
                if time.monotonic() >= self._give_up_at:
                    self._jobs.stop_all(Abandoned())
                    self._renewed_at = time.monotonic()
                await asyncio.sleep(_RETRY_SECONDS)

    async def renew(self) -> None:
        held = self._jobs.held_jobs
        seconds = self._settings.lease_seconds
        renewal = await leases.renew(self._db, self._worker, held, seconds)
        lost = frozenset(job.claim for job in held) - renewal.kept
        if lost:
            _log.warning("claims lost: %s", ", ".join(job_id for job_id, _ in sorted(lost)))
        self._jobs.stop_claims(lost, Abandoned())
        self._jobs.stop_claims(renewal.cancel_requested, Cancelled())

    @property
    def _give_up_at(self) -> float:
        margin = min(_MARGIN_SECONDS, self._settings.lease_seconds / 4)
        return self._renewed_at + self._settings.lease_seconds - margin
