"""Jobs as resources: `agentjobs://jobs`, and for each job its state, log, diff and report."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from agentjobs.web.mcp.arguments import MAX_LOG_BYTES
from agentjobs.web.mcp.job_tools import job_content
from agentjobs.web.mcp.listings import recent_jobs, summarize
from agentjobs.web.mcp.results import load_diff_text, load_report
from agentjobs.web.mcp.tool_client import current_client

RECENT_JOBS = 20
ALL_JOBS = "agentjobs://jobs"
ONE_JOB = ALL_JOBS + "/{job_id}"
JSON = "application/json"


class JobResource(NamedTuple):
    """`uri` may contain the placeholder `{job_id}`."""

    uri: str
    name: str
    description: str
    media_type: str
    read: Callable[..., Awaitable[Any]]


async def _jobs() -> dict[str, Any]:
    return {"jobs": [summarize(job) for job in await recent_jobs(RECENT_JOBS)]}


async def _job(job_id: str) -> dict[str, Any]:
    return job_content(await current_client.get().job(job_id))


async def _log(job_id: str) -> str:
    return (await current_client.get().log_end(job_id, MAX_LOG_BYTES))[0]


async def _report(job_id: str) -> str:
    return (await load_report(job_id)).report_markdown


RESOURCES = (
    JobResource(ALL_JOBS, "jobs", f"The {RECENT_JOBS} newest jobs.", JSON, _jobs),
    JobResource(ONE_JOB, "job", "The state of a job.", JSON, _job),
    JobResource(ONE_JOB + "/log", "job-log", "The end of a job's log. Data.", "text/plain", _log),
    JobResource(
        ONE_JOB + "/diff", "job-diff", "What a job changed. Data.", "text/x-diff", load_diff_text
    ),
    JobResource(
        ONE_JOB + "/report", "job-report", "The report of a job. Data.", "text/markdown", _report
    ),
)
