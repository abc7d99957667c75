"""The tools that create, read and change one job."""

import math
import time
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from agentjobs.web.mcp.arguments import ABSENT, JobConfig, JobId, Prompt
from agentjobs.web.mcp.listings import describe_briefly, warning_lines
from agentjobs.web.mcp.protocol import tool_result
from agentjobs.web.mcp.tool_client import current_client
from agentjobs_client import ApiError, Job, JobReceipt

MAX_WAIT_SECONDS = 300

# How often progress is reported; many clients give up after a minute without a message.
_PROGRESS_SECONDS = 10
# Read with read_report: they may be long.
_REPORT_FIELDS = frozenset({"report_markdown", "report_json"})


async def create_job(
    repo: Annotated[
        str, Field(description="Full name of a repository of list_repos, `<owner>/<name>`.")
    ],
    agent: Annotated[str, Field(description="Id of an agent of list_agents.")],
    prompt: Prompt = ABSENT,
    ticket_id: Annotated[
        str,
        Field(
            description="Ticket in the organization's tracker; its text becomes part of the task."
        ),
    ] = ABSENT,
    labels: Annotated[
        dict[str, str], Field(description="Keys and values by which jobs can be found later.")
    ] = ABSENT,
    config: Annotated[
        JobConfig,
        Field(description="Further settings of this job; unknown keys go to the agent."),
    ] = ABSENT,
) -> CallToolResult:
    """Start an agent on a repository. Returns the id of the job at once; the agent then works for
    minutes, and the job ends with a pull request, or with a report if the agent writes one
    instead. Every call starts another job, which costs money."""
    overrides: dict[str, Any] = {**(config or {}), "prompt": prompt}
    given = {name: value for name, value in overrides.items() if value is not None}
    receipt = await current_client.get().create_job(
        repo, agent, ticket_id=ticket_id, labels=labels, config_override=given or None
    )
    return _receipt_result(receipt)


async def get_job(job_id: JobId) -> CallToolResult:
    """Read the state of a job: status, pull request, error, cost, times. To wait for its end, use
    watch_job instead of calling this repeatedly."""
    return _job_result(await current_client.get().job(job_id))


async def watch_job(
    context: Context,
    job_id: JobId,
    until: Annotated[
        Literal["change", "final"],
        Field(
            description="`final`: wait until the job has ended. `change`: until its status changes."
        ),
    ] = "final",
    wait_seconds: Annotated[
        int,
        Field(
            description="How long to wait at most. Choose less than the time limit of your client"
            " for a call, which is often 60 seconds.",
            ge=0,
            le=MAX_WAIT_SECONDS,
        ),
    ] = 45,
) -> CallToolResult:
    """Wait until a job has ended, or until its status changes, and return it. Returns the job as it
    is when the time is over: call it again while is_final is false."""
    # Waits in short calls of the API, between which it reports progress.
    client, started_at = current_client.get(), time.monotonic()
    job = await client.job(job_id)
    first_status = job.status
    while not (job.is_finished or (until == "change" and job.status != first_status)):
        elapsed = time.monotonic() - started_at
        if elapsed >= wait_seconds:
            break
        await context.report_progress(elapsed, wait_seconds, _describe_state(job))
        try:
            remaining = math.ceil(wait_seconds - elapsed)
            job = await client.job(job_id, min(remaining, _PROGRESS_SECONDS))
        except ApiError as error:
            if error.code != "unavailable":
                raise
            # The service is shutting down: what is known of the job is a better answer.
            break
    return _job_result(job, is_watched=True)


async def cancel_job(job_id: JobId) -> CallToolResult:
    """Stop a job. Its agent is stopped within seconds and its work is lost; a job that has ended
    cannot be cancelled."""
    return _job_result(await current_client.get().cancel(job_id))


async def follow_up_job(
    job_id: JobId,
    prompt: Prompt,
    agent: Annotated[
        str, Field(description="Id of another agent; by default the job's agent.")
    ] = ABSENT,
) -> CallToolResult:
    """Start a job that continues on the open pull request of a completed job, for example to
    address review comments. Adds a commit to that pull request and costs money."""
    return _receipt_result(await current_client.get().follow_up(job_id, prompt, agent=agent))


async def retry_job(job_id: JobId) -> CallToolResult:
    """Start a new job with the request of one that has ended, for example after a failure that was
    not its fault. Costs money; returns the id of the new job."""
    return _receipt_result(await current_client.get().retry(job_id))


def job_content(job: Job) -> dict[str, Any]:
    return {
        **{name: value for name, value in job.raw.items() if name not in _REPORT_FIELDS},
        "has_report": job.report_markdown is not None,
        "is_final": job.is_finished,
    }


def _describe_state(job: Job) -> str:
    if job.queue_position is not None:
        return f"The job is {job.status}, number {job.queue_position} in the queue."
    if job.elapsed_ms is not None:
        return f"The job has been {job.status} for {job.elapsed_ms / 1_000:.0f} s."
    return f"The job is {job.status}."


def _receipt_result(receipt: JobReceipt) -> CallToolResult:
    text = (
        f"Job {receipt.job_id} is {receipt.status} and starts in about"
        f" {receipt.estimated_start_ms / 1_000:.0f} s. Wait for it with watch_job."
    )
    return tool_result(receipt.raw, "\n".join((text, *warning_lines(receipt.warnings))))


def _job_result(job: Job, *, is_watched: bool = False) -> CallToolResult:
    lines = [describe_briefly(job)]
    if job.error:
        lines.append(f"{job.error.code}: {job.error.message}")
    if job.queue_reason:
        lines.append(f"It waits: {job.queue_reason}")
    if job.report_markdown is not None:
        lines.append("It has a report: read_report.")
    if is_watched and not job.is_finished:
        lines.append(f"{_describe_state(job)} It has not ended yet: call watch_job again.")
    return tool_result(job_content(job), "\n".join(lines))
