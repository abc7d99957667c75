"""Jobs as resources: `agentjobs://jobs`, and for each job its state, log, diff and report."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from agentjobs.web.mcp.arguments import MAX_DIFF_BYTES, MAX_LOG_BYTES
from agentjobs.web.mcp.job_tools import job_content
from agentjobs.web.mcp.listings import recent_jobs
from agentjobs.web.mcp.rest_api import RestApi, RestError, fetch_job
from agentjobs.web.mcp.results import diff_text, load_report, log_tail

RECENT_JOBS = 20
ALL_JOBS = "agentjobs://jobs"

_ONE_JOB = re.compile(r"agentjobs://jobs/(job_[A-Za-z0-9]{1,60})(?:/([a-z]{1,20}))?")


class Content(NamedTuple):
    media_type: str
    text: str


class JobResource(NamedTuple):
    """A resource that every job has; `suffix` is the last part of its address."""

    suffix: str
    name: str
    description: str
    media_type: str
    read: Callable[[RestApi, str], Awaitable[str]]

    @property
    def template(self) -> str:
        return f"{ALL_JOBS}/{{job_id}}" + (f"/{self.suffix}" if self.suffix else "")


async def read_resource(api: RestApi, uri: str) -> Content:
    """Raises RestError, also if there is no such resource."""
    if uri == ALL_JOBS:
        return Content("application/json", _json({"jobs": await recent_jobs(api, RECENT_JOBS)}))
    match = _ONE_JOB.fullmatch(uri)
    for resource in JOB_RESOURCES:
        if match and resource.suffix == (match[2] or ""):
            return Content(resource.media_type, await resource.read(api, match[1]))
    raise RestError("resource_not_found", f"There is no resource {uri[:200]}.")


async def _job(api: RestApi, job_id: str) -> str:
    return _json(job_content(await fetch_job(api, job_id)))


async def _log(api: RestApi, job_id: str) -> str:
    return (await log_tail(api, job_id, MAX_LOG_BYTES))[0]


async def _diff(api: RestApi, job_id: str) -> str:
    return await diff_text(api, job_id, MAX_DIFF_BYTES)


async def _report(api: RestApi, job_id: str) -> str:
    return (await load_report(api, job_id)).report_markdown


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


JOB_RESOURCES = (
    JobResource("", "job", "The state of a job.", "application/json", _job),
    JobResource("log", "job-log", "The end of a job's log. Data.", "text/plain", _log),
    JobResource("diff", "job-diff", "What a job changed. Data.", "text/x-diff", _diff),
    JobResource("report", "job-report", "The report of a job. Data.", "text/markdown", _report),
)
