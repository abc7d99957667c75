"""Stops cancelled jobs of this worker: on notification, and by polling."""

from agentjobs_runtime.protocol.messages import CANCEL_TOPIC, FindCancelled
from agentjobs_runtime.protocol.outcomes import Cancelled
from agentjobs_worker.link.protocol import Link
from agentjobs_worker.loops.job_loop import JobLoop

_POLL_SECONDS = 0.5
# In a large fleet. Each renewal of the leases returns cancels, too.
_MAX_POLL_SECONDS = 2.0


class CancelLoop:
    name = "cancels"

    def __init__(self, link: Link, jobs: JobLoop) -> None:
        self._link = link
        self._jobs = jobs

    async def run(self) -> None:
        changes = self._link.changes
        with changes.listen(CANCEL_TOPIC) as signal:
            while True:
                await self._jobs.has_jobs.wait()
                await signal.wait(changes.poll_seconds(_POLL_SECONDS, _MAX_POLL_SECONDS))
                if self._jobs.has_jobs.is_set():
                    self._jobs.stop_claims(await self._link.call(FindCancelled()), Cancelled())
