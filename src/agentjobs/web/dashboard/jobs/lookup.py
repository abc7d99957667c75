"""The job an address names."""

from agentjobs.identifiers import id_matcher
from agentjobs.jobs.views.queries import ensure_job
from agentjobs.problems import Problem
from agentjobs.web.dashboard.other_organizations import look_elsewhere_for_job
from agentjobs.web.dashboard.request_context import PageRequest

_is_job_id = id_matcher("job")


async def job_id_of(request: PageRequest) -> str:
    """Of one that is there; a refusal in words for people otherwise, before anything is begun."""
    job_id = request.path_param("job_id")
    try:
        if _is_job_id(job_id):
            await ensure_job(request.db, request.organization_id, job_id)
            return job_id
    except Problem as problem:
        if problem.code != "job_not_found":
            raise
        await look_elsewhere_for_job(request, job_id)
    raise Problem("job_not_found", "There is no such job in your organization; Jobs lists them.")
