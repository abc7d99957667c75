"""Stops cancelled jobs of this worker: on notification, and by polling."""

from agentjobs_runtime.protocol.outcomes import Cancelled
from agentjobs_worker.link.queue import cancel_requests
from agentjobs_worker.link.store import Database
from agentjobs_worker.loops.job_loop import JobLoop

_POLL_SECONDS = 0.5
# In a large fleet. Each renewal of the leases returns cancels, too.
_MAX_POLL_SECONDS = 2.0


class CancelLoop:
    name = "cancels"

    def __init__(self, db: Database, worker_id: str, jobs: JobLoop) -> None:
        self._db = db
        self._worker_id = worker_id
        self._jobs = jobs

    async def run(self) -> None:
        changes = self._db.changes
        with changes.listen("cancel") as signal:
            while True:
                await self._jobs.has_jobs.wait()
                await signal.wait(changes.poll_seconds(_POLL_SECONDS, _MAX_POLL_SECONDS))
                if self._jobs.has_jobs.is_set():
                    claims = await cancel_requests(self._db, self._worker_id)
                    self._jobs.stop_claims(claims, Cancelled())
