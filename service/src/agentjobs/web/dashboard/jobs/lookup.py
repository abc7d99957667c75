"""Finds the job named in a path."""

from agentjobs.jobs.lookup import ensure_job
from agentjobs.web.dashboard.other_organizations import check_other_organizations_for_job
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.problems import Problem

_is_job_id = id_matcher("job")


async def require_job_id(request: PageRequest) -> str:
    """Raises Problem, worded for the dashboard, if the organization has no such job."""
    job_id = request.path_param("job_id")
    try:
        if _is_job_id(job_id):
            await ensure_job(request.db, request.organization_id, job_id)
            return job_id
    except Problem as problem:
        if problem.code != "job_not_found":
            raise
        await check_other_organizations_for_job(request, job_id)
    raise Problem("job_not_found", "There is no such job in your organization. See Jobs.")
