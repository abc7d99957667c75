"""A new job that asks for what an earlier one asked for. Refuses what `create` refuses."""

import msgspec

from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.create import CreatedJob, create_job
from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queries import job_not_found
from agentjobs.organizations.key_ring import Caller


async def run_again(context: JobsContext, caller: Caller, job_id: str) -> CreatedJob:
    row = await context.db.fetch_one(
        "SELECT repo, agent, ticket_id, config_override FROM jobs"
        " WHERE id = :job_id AND organization_id = :organization_id",
        job_id=job_id,
        organization_id=caller.organization_id,
    )
    if row is None:
        raise job_not_found(job_id)
    body = CreateJobRequest(
        repo=row["repo"],
        agent=row["agent"],
        ticket_id=row["ticket_id"],
        config_override=msgspec.json.decode(row["config_override"]),
    )
    return await create_job(context, caller, body)
