"""Rescues jobs whose lease expired. Runs in every worker and API process; one is enough."""

import logging

from agentjobs.jobs.queue.rescue import rescue_lost_jobs
from agentjobs.loops.loop import PeriodicLoop
from agentjobs.settings import Settings
from agentjobs.store.database import Database

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 1.0


def rescue_loop(db: Database, settings: Settings) -> PeriodicLoop:
    async def rescue() -> None:
        for job_id in await rescue_lost_jobs(db, settings.lost_worker_retries):
            _log.warning("rescued a job of a lost worker", extra={"fields": {"job_id": job_id}})

    return PeriodicLoop("rescue", _INTERVAL_SECONDS, rescue)
