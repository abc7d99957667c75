"""The job an address names."""

import re

from agentjobs.problems import Problem
from agentjobs.web.api.jobs import JOB_ID_PATTERN
from agentjobs.web.dashboard.visits import Visit

_is_job_id = re.compile(JOB_ID_PATTERN[1:-1]).fullmatch


def job_id_of(visit: Visit) -> str:
    job_id = visit.path("job_id")
    if not _is_job_id(job_id):
        raise Problem("job_not_found", "There is no such job in your organization.")
    return job_id
