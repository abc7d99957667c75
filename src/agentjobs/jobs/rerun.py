"""Runs a job again: creates a new job, or a new follow-up, from the request of an earlier one."""

import msgspec

from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.create import CreatedJob, create_job
from agentjobs.jobs.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.model import ConfigOverride, CreateJobRequest, stored_cause
from agentjobs.jobs.views.queries import job_not_found
from agentjobs.organizations.authentication import Caller


async def run_again(context: JobsContext, caller: Caller, job_id: str) -> CreatedJob:
    row = await context.db.fetch_one(
        "SELECT repo, agent, ticket_id, config_override, follows, cause FROM jobs"
        " WHERE id = :job_id AND organization_id = :organization_id",
        job_id=job_id,
        organization_id=caller.organization_id,
    )
    if row is None:
        raise job_not_found(job_id)
    override: ConfigOverride = msgspec.json.decode(row["config_override"])
    if row["follows"] is not None:
        # A new job would open a second pull request.
        request = FollowUpRequest(
            prompt=override.get("prompt", ""),
            agent=row["agent"],
            timeout_seconds=override.get("timeout_seconds"),
            max_cost_usd=override.get("max_cost_usd"),
        )
        return await follow_up_job(context, caller, row["follows"], request)
    body = CreateJobRequest(
        repo=row["repo"],
        agent=row["agent"],
        ticket_id=row["ticket_id"],
        config_override=override,
    )
    return await create_job(context, caller, body, cause=stored_cause(row["cause"]))
