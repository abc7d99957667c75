"""Finds jobs whose worker is gone. Runs beside every worker and API: one alive is enough."""

import logging

from agentjobs.jobs.queue.rescue import rescue_lost_jobs
from agentjobs.loops.loop import PeriodicLoop
from agentjobs.settings import Settings
from agentjobs.store.database import Database

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 1.0


def rescue_loop(db: Database, settings: Settings) -> PeriodicLoop:
    async def once() -> None:
        for job_id in await rescue_lost_jobs(db, settings.lost_worker_retries):
            _log.warning("a worker was lost", extra={"fields": {"job_id": job_id}})

    return PeriodicLoop("rescue", _EVERY_SECONDS, once)
