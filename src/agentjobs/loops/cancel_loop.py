"""Stops cancelled jobs of this worker: on notification, and by polling twice a second."""

from agentjobs.jobs.outcomes import Cancelled
from agentjobs.jobs.queue.leases import cancel_requests
from agentjobs.loops.job_loop import JobLoop
from agentjobs.store.database import Database

_POLL_SECONDS = 0.5


class CancelLoop:
    name = "cancels"

    def __init__(self, db: Database, worker_id: str, jobs: JobLoop) -> None:
        self._db = db
        self._worker_id = worker_id
        self._jobs = jobs

    async def run(self) -> None:
        with self._db.changes.listen("cancel") as signal:
            while True:
                if self._jobs.active_jobs:
                    claims = await cancel_requests(self._db, self._worker_id)
                    self._jobs.stop_claims(claims, Cancelled())
                await signal.wait(_POLL_SECONDS)
