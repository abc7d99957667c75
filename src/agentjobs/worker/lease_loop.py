"""Keeps this worker's claims alive, independent of what its jobs do, and hears of cancels.

A worker that cannot renew stops its agents before the lease ends, so the next holder is alone.
"""

import asyncio
import logging
import time

from agentjobs.jobs import leases
from agentjobs.jobs.outcomes import Abandoned, Cancelled
from agentjobs.settings import Settings
from agentjobs.store.database import Database, StoreUnavailable
from agentjobs.worker.job_loop import JobLoop
from agentjobs.worker.loop import pause

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
# Time to kill the agents once renewing has failed for too long.
_MARGIN_SECONDS = 1.5


class LeaseLoop:
    name = "leases"

    def __init__(self, db: Database, settings: Settings, worker_id: str, jobs: JobLoop) -> None:
        self._db = db
        self._settings = settings
        self._worker_id = worker_id
        self._jobs = jobs

    async def run(self, stopping: asyncio.Event) -> None:
        renewed_at = time.monotonic()
        while not stopping.is_set():
            began = time.monotonic()
            try:
                # A store that hangs must not keep us past the lease either.
                async with asyncio.timeout(self._give_up_at(renewed_at) - began):
                    await self._renew()
                renewed_at = began
                await pause(stopping, self._settings.lease_renew_seconds)
            except (StoreUnavailable, TimeoutError) as error:
                _log.warning("leases could not be renewed: %s", str(error) or "the store hangs")
                if time.monotonic() >= self._give_up_at(renewed_at):
                    self._jobs.stop_all(Abandoned())
                    renewed_at = time.monotonic()
                await pause(stopping, _RETRY_SECONDS)

    def _give_up_at(self, renewed_at: float) -> float:
        margin = min(_MARGIN_SECONDS, self._settings.lease_seconds / 4)
        return renewed_at + self._settings.lease_seconds - margin

    async def _renew(self) -> None:
        held = self._jobs.held_jobs
        renewal = await leases.renew(self._db, self._worker_id, held, self._settings.lease_seconds)
        lost = frozenset(job.id for job in held) - renewal.kept
        if lost:
            _log.warning("claims lost: %s", ", ".join(sorted(lost)))
        self._jobs.stop_jobs(lost, Abandoned())
        self._jobs.stop_jobs(renewal.cancel_requested, Cancelled())


class CancelLoop:
    """Looks for cancel wishes as soon as one is announced, and twice a second in any case."""

    name = "cancels"
    _LOOK_SECONDS = 0.5

    def __init__(self, db: Database, worker_id: str, jobs: JobLoop) -> None:
        self._db = db
        self._worker_id = worker_id
        self._jobs = jobs

    async def run(self, stopping: asyncio.Event) -> None:
        with self._db.changes.listen("cancel") as signal:
            while not stopping.is_set():
                if self._jobs.held_jobs:
                    wishes = await leases.cancel_requests(self._db, self._worker_id)
                    self._jobs.stop_jobs(wishes, Cancelled())
                await signal.wait(self._LOOK_SECONDS)
