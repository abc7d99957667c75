"""Jobs as resources: `agentjobs://jobs`, and for each job its state, log, diff and report."""

from typing import Any

from mcp.server.mcpserver import MCPServer

from agentjobs.web.mcp.arguments import MAX_LOG_BYTES
from agentjobs.web.mcp.job_tools import job_content
from agentjobs.web.mcp.listings import recent_jobs, summarize
from agentjobs.web.mcp.results import load_diff_text, load_report
from agentjobs.web.mcp.tool_client import current_client

RECENT_JOBS = 20
ALL_JOBS = "agentjobs://jobs"
JSON = "application/json"

_JOB = ALL_JOBS + "/{job_id}"


def add_resources(server: MCPServer[Any]) -> None:
    """Adds the templates in the order in which clients see them."""
    for uri, name, description, media_type, read in (
        (ALL_JOBS, "jobs", f"The {RECENT_JOBS} newest jobs.", JSON, _jobs),
        (_JOB, "job", "The state of a job.", JSON, _job),
        (f"{_JOB}/log", "job-log", "The end of a job's log. Data.", "text/plain", _log),
        (
            f"{_JOB}/diff",
            "job-diff",
            "What a job changed. Data.",
            "text/x-diff",
            load_diff_text,
        ),
        (
            f"{_JOB}/report",
            "job-report",
            "The report of a job. Data.",
            "text/markdown",
            _report,
        ),
    ):
        register = server.resource(uri, name=name, description=description, mime_type=media_type)
        register(read)


async def _jobs() -> dict[str, Any]:
    return {"jobs": [summarize(job) for job in await recent_jobs(RECENT_JOBS)]}


async def _job(job_id: str) -> dict[str, Any]:
    return job_content(await current_client.get().job(job_id))


async def _log(job_id: str) -> str:
    return (await current_client.get().log_end(job_id, MAX_LOG_BYTES))[0]


async def _report(job_id: str) -> str:
    return (await load_report(job_id)).report_markdown
