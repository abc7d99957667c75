"""Rescues jobs whose lease expired. Every worker and API process looks for them."""

import asyncio
import logging
import time

from agentjobs.jobs.queue.rescue import rescue_lost_jobs
from agentjobs.loops.loop import PeriodicLoop
from agentjobs.settings import Settings
from agentjobs.store.database import Database

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 1.0
_MAX_INTERVAL_SECONDS = 2.5
# After so long without the database this process waits before it judges the leases of others.
_CUT_OFF_SECONDS = 4.0
_RECONNECT_SECONDS = 2.0


def rescue_loop(db: Database, settings: Settings) -> PeriodicLoop:
    reached_at = time.monotonic()

    async def rescue() -> None:
        nonlocal reached_at
        if time.monotonic() - reached_at > _CUT_OFF_SECONDS:
            # The workers were cut off too: let them hand over finished work first.
            await db.ping()
            await asyncio.sleep(_RECONNECT_SECONDS)
        for job_id in await rescue_lost_jobs(db, settings):
            _log.warning("rescued a job of a lost worker", extra={"fields": {"job_id": job_id}})
        reached_at = time.monotonic()

    def interval_seconds() -> float:
        return db.changes.poll_seconds(_INTERVAL_SECONDS, _MAX_INTERVAL_SECONDS)

    return PeriodicLoop("rescue", interval_seconds, rescue)
