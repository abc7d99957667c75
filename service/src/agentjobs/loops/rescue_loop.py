"""Rescues jobs whose lease expired. Every worker and API process looks for them."""

import logging

from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.store.database import Database, StoreError
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.loop import PeriodicLoop
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 1.0
_MAX_INTERVAL_SECONDS = 2.5


def rescue_loop(db: Database, settings: Settings) -> PeriodicLoop:
    lease_ms = int(settings.lease_seconds * SECOND_MS)

    async def rescue() -> None:
        try:
            # While this process was cut off from the database, the workers may have been, too.
            rescued = await rescue_lost_jobs(
                db, settings, may_judge=lambda: db.contact.has_lasted(lease_ms)
            )
        except StoreError:
            # The workers cannot write either.
            db.contact.lose()
            raise
        db.contact.note()
        for job_id in rescued:
            _log.warning("rescued a job of a lost worker", extra={"fields": {"job_id": job_id}})

    def interval_seconds() -> float:
        return db.changes.poll_seconds(_INTERVAL_SECONDS, _MAX_INTERVAL_SECONDS)

    return PeriodicLoop("rescue", interval_seconds, rescue)
