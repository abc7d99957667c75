"""Hears of cancels: as soon as one is announced, and by looking twice a second in any case."""

from agentjobs.jobs.queue.leases import cancel_requests
from agentjobs.jobs.run.outcomes import Cancelled
from agentjobs.loops.job_loop import JobLoop
from agentjobs.store.database import Database

_LOOK_SECONDS = 0.5


class CancelLoop:
    name = "cancels"

    def __init__(self, db: Database, worker_id: str, jobs: JobLoop) -> None:
        self._db = db
        self._worker_id = worker_id
        self._jobs = jobs

    async def run(self) -> None:
        with self._db.changes.listen("cancel") as signal:
            while True:
                if self._jobs.held_jobs:
                    wishes = await cancel_requests(self._db, self._worker_id)
                    self._jobs.stop_claims(wishes, Cancelled())
                await signal.wait(_LOOK_SECONDS)
