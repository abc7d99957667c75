"""The tools that create, read and change one job."""

import math
import time
from collections.abc import Mapping
from typing import Any

from agentjobs.web.mcp.arguments import CreateJob, FollowUpJob, OneJob, WatchJob
from agentjobs.web.mcp.listings import describe_briefly, warning_lines
from agentjobs.web.mcp.rest_api import RestError, RestRequest, fetch_job, fetch_json, job_path
from agentjobs.web.mcp.tool import ToolCall, ToolResult

_FINAL = frozenset({"completed", "failed", "cancelled"})
# How often progress is reported; many clients give up after a minute without a message.
_PROGRESS_SECONDS = 10
# Read with read_report: they may be long.
_REPORT_FIELDS = frozenset({"report_markdown", "report_json"})


async def create_job(call: ToolCall) -> ToolResult:
    arguments: CreateJob = call.arguments
    config = dict(arguments.config or {})
    if arguments.prompt is not None:
        config["prompt"] = arguments.prompt
    body = {
        "repo": arguments.repo,
        "agent": arguments.agent,
        "ticket_id": arguments.ticket_id,
        "labels": arguments.labels,
        "config_override": config or None,
    }
    given = {name: value for name, value in body.items() if value is not None}
    return await _queue(call, "/jobs", given)


async def follow_up_job(call: ToolCall) -> ToolResult:
    arguments: FollowUpJob = call.arguments
    body = {"prompt": arguments.prompt}
    if arguments.agent is not None:
        body["agent"] = arguments.agent
    return await _queue(call, job_path(arguments.job_id, "follow-ups"), body)


async def retry_job(call: ToolCall) -> ToolResult:
    arguments: OneJob = call.arguments
    return await _queue(call, job_path(arguments.job_id, "retry"))


async def cancel_job(call: ToolCall) -> ToolResult:
    arguments: OneJob = call.arguments
    return _job_result(await fetch_job(call.api, arguments.job_id, "cancel", method="POST"))


async def get_job(call: ToolCall) -> ToolResult:
    arguments: OneJob = call.arguments
    return _job_result(await fetch_job(call.api, arguments.job_id))


async def watch_job(call: ToolCall) -> ToolResult:
    """Waits in short calls of the API, between which it reports progress."""
    arguments: WatchJob = call.arguments
    started_at = time.monotonic()
    job = await fetch_job(call.api, arguments.job_id)
    first_status = job["status"]
    while not _is_reached(job, first_status, arguments.until):
        elapsed = time.monotonic() - started_at
        if elapsed >= arguments.wait_seconds:
            break
        seconds = min(math.ceil(arguments.wait_seconds - elapsed), _PROGRESS_SECONDS)
        await call.report_progress(elapsed, arguments.wait_seconds, _describe_state(job))
        try:
            job = await fetch_job(call.api, arguments.job_id, wait_seconds=seconds)
        except RestError as error:
            if error.code != "unavailable":
                raise
            # The service is shutting down: what is known of the job is a better answer.
            break
    return _job_result(job, is_watched=True)


def _describe_state(job: Mapping[str, Any]) -> str:
    position, elapsed_ms = job.get("queue_position"), job.get("elapsed_ms")
    if position is not None:
        return f"The job is {job['status']}, number {position} in the queue."
    if elapsed_ms is not None:
        return f"The job has been {job['status']} for {elapsed_ms / 1_000:.0f} s."
    return f"The job is {job['status']}."


def _is_reached(job: Mapping[str, Any], first_status: str, until: str) -> bool:
    return job["status"] in _FINAL or (until == "change" and job["status"] != first_status)


async def _queue(call: ToolCall, path: str, body: Mapping[str, Any] | None = None) -> ToolResult:
    request = RestRequest("POST", path, body=body)
    receipt = await fetch_json(call.api, request, "job_id", "status", "estimated_start_ms")
    text = (
        f"Job {receipt['job_id']} is {receipt['status']} and starts in about"
        f" {receipt['estimated_start_ms'] / 1_000:.0f} s. Wait for it with watch_job."
    )
    return ToolResult(receipt, "\n".join((text, *warning_lines(receipt))))


def job_content(job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: value for name, value in job.items() if name not in _REPORT_FIELDS},
        "has_report": job.get("report_markdown") is not None,
        "is_final": job["status"] in _FINAL,
    }


def _job_result(job: Mapping[str, Any], *, is_watched: bool = False) -> ToolResult:
    content = job_content(job)
    lines = [describe_briefly(job)]
    if error := job.get("error"):
        lines.append(f"{error['code']}: {error['message']}")
    if reason := job.get("queue_reason"):
        lines.append(f"It waits: {reason}")
    if content["has_report"]:
        lines.append("It has a report: read_report.")
    if is_watched and not content["is_final"]:
        lines.append(f"{_describe_state(job)} It has not ended yet: call watch_job again.")
    return ToolResult(content, "\n".join(lines))
