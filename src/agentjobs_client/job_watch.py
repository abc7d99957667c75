"""Where the waiting for one job stands: what to ask next, and how soon."""

from agentjobs_client import calls
from agentjobs_client.errors import ClientError
from agentjobs_client.models import Job
from agentjobs_client.retry import Clock, Patience, pause_before_asking_again


class JobWatch:
    def __init__(self, job_id: str, patience: Patience, clock: Clock) -> None:
        self._job_id = job_id
        self._patience = patience
        self._clock = clock
        self._job: Job | None = None
        self._asked_at = 0.0

    @property
    def ended(self) -> bool:
        return self._job is not None and self._job.finished

    def next_call(self) -> calls.Call:
        """The job as it is at first, then as soon as its status changes."""
        self._asked_at = self._clock()
        return calls.get_job(self._job_id, calls.LONGEST_WAIT_SECONDS if self._job else None)

    def brings_news(self, job: Job) -> bool:
        """Takes an answer; whether its status is another than the last one's."""
        self._patience.answered()
        before, self._job = self._job, job
        return before is None or before.status != job.status

    def pause_without_news(self) -> float:
        """Seconds until the next call. A service that is stopping answers all of them at once."""
        waited = self._clock() - self._asked_at
        return pause_before_asking_again() if waited < calls.LONGEST_WAIT_SECONDS / 2 else 0.0

    def pause_after(self, error: ClientError) -> float:
        """Seconds until the next try; raises the error when trying again is no use."""
        return self._patience.pause_after(error)
