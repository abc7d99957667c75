"""Waiting for a job to change: told by the store's wake-ups, with a slow look as backstop."""

import time

from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.model import JobView
from agentjobs.jobs.states import FINAL
from agentjobs.jobs.views.queries import get_job

_BACKSTOP_SECONDS = 2.0


async def wait_for_change(
    context: JobsContext, organization_id: str, job_id: str, seconds: float
) -> JobView:
    """The job once its status differs from now, or as it is after `seconds`. Cancel to give up."""
    deadline = time.monotonic() + seconds
    with context.db.changes.listen(f"job:{job_id}") as signal:
        first = job = await get_job(context, organization_id, job_id)
        while job.status == first.status and job.status not in FINAL:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            await signal.wait(min(remaining, _BACKSTOP_SECONDS))
            job = await get_job(context, organization_id, job_id)
        return job
