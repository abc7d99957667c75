"""The state of waiting for one job: the next call and the delay before it."""

from agentjobs_client import calls
from agentjobs_client.errors import ClientError
from agentjobs_client.models import Job
from agentjobs_client.retry import Clock, RetryState, poll_delay


class JobWatch:
    def __init__(self, job_id: str, retry: RetryState, clock: Clock) -> None:
        self._job_id = job_id
        self._retry = retry
        self._clock = clock
        self._job: Job | None = None
        self._asked_at = 0.0

    @property
    def ended(self) -> bool:
        return self._job is not None and self._job.finished

    def next_call(self) -> calls.Call:
        """The first call returns at once, later ones when the status changes."""
        self._asked_at = self._clock()
        return calls.get_job(self._job_id, calls.MAX_WAIT_SECONDS if self._job else None)

    def update(self, job: Job) -> bool:
        """Store the latest job; returns whether its status changed."""
        self._retry.record_success()
        before, self._job = self._job, job
        return before is None or before.status != job.status

    def delay_without_change(self) -> float:
        """Seconds until the next call. A service that is shutting down responds without waiting."""
        waited = self._clock() - self._asked_at
        return poll_delay() if waited < calls.MAX_WAIT_SECONDS / 2 else 0.0

    def delay_after(self, error: ClientError) -> float:
        """Seconds until the next attempt. Raises the error if no retry is left."""
        return self._retry.delay_after(error)
