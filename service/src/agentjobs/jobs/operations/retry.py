"""Retries a finished job: creates a new job, or a new follow-up, from its request."""

from typing import Annotated

import msgspec

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.model import ConfigOverride, CreateJobRequest, Labels, stored_labels
from agentjobs.jobs.operations.create import CreatedJob, create_job
from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.states import FINAL
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Row
from agentjobs_runtime.json_fields import doc
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.cause import stored_cause

_EARLIER = (
    # The platform may have renamed the repository since.
    "SELECT j.status, COALESCE(r.full_name, j.repo) AS repo, j.agent, j.ticket_id,"
    " j.config_override, j.follows, j.cause, j.labels FROM jobs j"
    " LEFT JOIN repos r ON r.id = j.repo_id AND r.disconnected_at IS NULL"
    " WHERE j.id = :job_id AND j.organization_id = :organization_id"
)


class RetryRequest(msgspec.Struct, frozen=True):
    labels: Annotated[
        Labels | None, doc("The labels of the new job; by default those of the finished job.")
    ] = None


async def retry_job(
    context: JobsContext,
    caller: Caller,
    job_id: str,
    *,
    labels: dict[str, str] | None = None,
    idempotency: IdempotencyClaim | None = None,
) -> CreatedJob:
    """The new job has the labels of the earlier one unless others are given."""
    row = await context.db.fetch_one(
        _EARLIER, job_id=job_id, organization_id=caller.organization_id
    )
    if row is None:
        raise job_not_found(job_id)
    if row["status"] not in FINAL:
        raise Problem(
            "job_not_finished",
            f"The job is still {row['status']}; wait until it finishes, or cancel it.",
        )
    override: ConfigOverride = msgspec.json.decode(row["config_override"])
    if labels is None:
        labels = stored_labels(row["labels"])
    if row["follows"] is not None:
        # A new job would open a second pull request.
        again = _follow_up(row, override, labels)
        return await follow_up_job(context, caller, row["follows"], again, idempotency=idempotency)
    body = CreateJobRequest(
        repo=row["repo"],
        agent=row["agent"],
        ticket_id=row["ticket_id"],
        config_override=override,
        labels=labels,
    )
    cause = stored_cause(row["cause"])
    return await create_job(context, caller, body, idempotency=idempotency, cause=cause)


def _follow_up(row: Row, override: ConfigOverride, labels: dict[str, str]) -> FollowUpRequest:
    return FollowUpRequest(
        prompt=override.get("prompt", ""),
        agent=row["agent"],
        timeout_seconds=override.get("timeout_seconds"),
        max_cost_usd=override.get("max_cost_usd"),
        priority=override.get("priority"),
        labels=labels,
    )
