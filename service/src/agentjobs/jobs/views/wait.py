"""Waits for a job to change or to finish: on notification, and by polling as a fallback."""

import time

from agentjobs.jobs.model import JobView
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.states import FINAL
from agentjobs.jobs.views.queries import get_job

_POLL_SECONDS = 2.0


async def wait_for_change(
    context: JobsContext,
    organization_id: str,
    job_id: str,
    seconds: float,
    *,
    until_final: bool = False,
) -> JobView:
    """The job once its status has changed, or is final, or after `seconds`."""
    deadline = time.monotonic() + seconds
    with context.db.changes.listen(f"job:{job_id}") as signal:
        first = job = await get_job(context, organization_id, job_id)
        while job.status not in FINAL and (until_final or job.status == first.status):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            await signal.wait(min(remaining, _POLL_SECONDS))
            job = await get_job(context, organization_id, job_id)
        return job
