"""Creates a follow-up: a job that continues the pull request of an earlier one.

Only one job at a time works on a branch.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.model import (
    AgentId,
    ConfigOverride,
    CreateJobRequest,
    Labels,
    MaxCostUsd,
    Priority,
    Prompt,
    Receipt,
    TimeoutSeconds,
    stored_labels,
)
from agentjobs.jobs.operations.audit import entry_for_person, write_entry
from agentjobs.jobs.operations.create import CreatedJob
from agentjobs.jobs.operations.idempotency import (
    IdempotencyClaim,
    find_receipt,
    first_call,
    store_receipt,
)
from agentjobs.jobs.queue.acceptance import Admission, check_acceptable, load_admission
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.estimate import estimate_start
from agentjobs.jobs.queue.fleet import FleetState
from agentjobs.jobs.queue.insert import NewJob, insert_job
from agentjobs.jobs.results.reports import has_report
from agentjobs.jobs.states import COMPLETED, FINAL, QUEUED, JobStatus
from agentjobs.jobs.validation import cap_faults, size_faults
from agentjobs.organizations import audit
from agentjobs.organizations.authentication import Caller
from agentjobs.pulls.local_platform import lock_pull
from agentjobs.pulls.status_rows import request_status
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.worker_part.agents import Catalog
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.json_fields import doc, find_faults
from agentjobs_runtime.problems import Fault, Problem
from agentjobs_runtime.tracing.spans import begin_trace

_OVERRIDES = ("prompt", "timeout_seconds", "max_cost_usd")
_OVERRIDE_PREFIX = "config_override."
_EARLIER = (
    # The platform may have renamed the repository since.
    "SELECT j.id, j.status, j.repo_id, COALESCE(r.full_name, j.repo) AS repo, j.agent,"
    " j.ticket_id, j.branch, j.config_override, j.labels FROM jobs j"
    " LEFT JOIN repos r ON r.id = j.repo_id AND r.disconnected_at IS NULL"
    " WHERE j.id = :job_id AND j.organization_id = :organization_id"
)
_ON_BRANCH = (
    "q.organization_id = :organization_id AND q.repo_id = :repo_id AND j.id = q.job_id"
    " AND j.branch = :branch"
)
# A union, because claimed and waiting jobs have an index each. SQLite needs the hints.
_ACTIVE = (
    "SELECT j.id FROM job_queue q /*sqlite INDEXED BY job_queue_leased */ CROSS JOIN jobs j"
    f" WHERE q.lease_owner IS NOT NULL AND {_ON_BRANCH}"
    " UNION ALL SELECT j.id FROM job_queue q /*sqlite INDEXED BY job_queue_waiting_in_order */"
    f" CROSS JOIN jobs j WHERE q.lease_owner IS NULL AND {_ON_BRANCH}"
)


class FollowUpRequest(msgspec.Struct, frozen=True):
    prompt: Annotated[Prompt, doc("What the agent should do to the pull request, at most 16 KiB.")]
    agent: Annotated[
        AgentId | None, doc("Agent identifier; by default the agent of the earlier job.")
    ] = None
    timeout_seconds: TimeoutSeconds | None = None
    max_cost_usd: MaxCostUsd | None = None
    priority: Annotated[
        Priority | None, doc("Its place in the queue; by default that of the earlier job.")
    ] = None
    labels: Annotated[Labels | None, doc("Its labels; by default those of the earlier job.")] = None


class EarlierJob(msgspec.Struct, frozen=True):
    """The job whose pull request is continued."""

    id: str
    status: JobStatus
    repo_id: str
    repo: str
    agent: str
    ticket_id: str | None
    branch: str
    # As JSON.
    config_override: str
    labels: str | None

    @property
    def priority(self) -> Priority | None:
        override: ConfigOverride = msgspec.json.decode(self.config_override)
        return override.get("priority")


async def earlier_job(db: Database | Transaction, organization_id: str, job_id: str) -> EarlierJob:
    """Raises `job_not_found` for a missing job and for one of another organization alike."""
    row = await db.fetch_one(_EARLIER, job_id=job_id, organization_id=organization_id)
    if row is None:
        raise job_not_found(job_id)
    return to_struct(row, EarlierJob)


async def active_job_on(
    db: Database | Transaction, organization_id: str, repo_id: str, branch: str
) -> str | None:
    """The queued or running job on a branch."""
    row = await db.fetch_one(
        _ACTIVE, organization_id=organization_id, repo_id=repo_id, branch=branch
    )
    return None if row is None else row["id"]


def follow_up_faults(body: Mapping[str, Any], earlier: EarlierJob, catalog: Catalog) -> list[Fault]:
    """Every fault at once."""
    faults = find_faults(body, FollowUpRequest)
    override = {name: body[name] for name in _OVERRIDES if body.get(name) is not None}
    faults += size_faults(override, "prompt")
    agent_id = body.get("agent") or earlier.agent
    if isinstance(agent_id, str) and (agent := catalog.get(agent_id)):
        faults += cap_faults(override, agent, "", faults)
    return faults


async def follow_up_job(
    context: JobsContext,
    caller: Caller,
    job_id: str,
    body: FollowUpRequest,
    *,
    idempotency: IdempotencyClaim | None = None,
) -> CreatedJob:
    """Create it from a valid `body`. Of concurrent requests for one branch, one is accepted."""
    with first_call(context.keys_in_flight, caller.organization_id, idempotency):
        fleet, traceparent = await context.fleet.state(), begin_trace()
        return await _follow_up(
            context.db, context, caller, job_id, body, idempotency, fleet, traceparent
        )


@audit.in_transaction
async def _follow_up(
    tx: Transaction,
    context: JobsContext,
    caller: Caller,
    job_id: str,
    body: FollowUpRequest,
    idempotency: IdempotencyClaim | None,
    fleet: FleetState,
    traceparent: str | None,
) -> CreatedJob:
    replayed = await find_receipt(tx, caller.organization_id, idempotency)
    if replayed is not None:
        return CreatedJob(replayed, replayed=True)
    earlier = await earlier_job(tx, caller.organization_id, job_id)
    request = _request(earlier, body)
    admission = await load_admission(tx, caller.organization_id, earlier.repo)
    _check_repo(earlier, admission)
    await _check_branch(tx, caller.organization_id, earlier)
    _check_request(context, caller, request, admission)
    follow_up_id = new_id("job")
    job = NewJob(
        follow_up_id,
        caller,
        earlier.repo_id,
        request,
        branch=earlier.branch,
        follows=earlier.id,
        traceparent=traceparent,
    )
    await insert_job(tx, job)
    await request_status(tx, earlier.repo_id, earlier.branch, follow_up_id)
    entry = entry_for_person("job.created", follows=job_id)
    await write_entry(tx, caller.organization_id, follow_up_id, entry)
    now = await tx.clock_ms()
    estimate = estimate_start(context.plans, caller, fleet, admission, request, now)
    receipt = Receipt(follow_up_id, QUEUED, estimate)
    await store_receipt(tx, caller.organization_id, idempotency, receipt)
    return CreatedJob(receipt, replayed=False)


def _request(earlier: EarlierJob, body: FollowUpRequest) -> CreateJobRequest:
    override: ConfigOverride = {"prompt": body.prompt}
    if body.timeout_seconds is not None:
        override["timeout_seconds"] = body.timeout_seconds
    if body.max_cost_usd is not None:
        override["max_cost_usd"] = body.max_cost_usd
    if (priority := body.priority or earlier.priority) is not None:
        override["priority"] = priority
    return CreateJobRequest(
        repo=earlier.repo,
        agent=body.agent or earlier.agent,
        ticket_id=earlier.ticket_id,
        config_override=override,
        labels=stored_labels(earlier.labels) if body.labels is None else body.labels,
    )


def _check_repo(earlier: EarlierJob, admission: Admission) -> None:
    if admission.repo_id != earlier.repo_id:
        # Disconnected, or replaced by another repository of the same name.
        raise Problem(
            "repo_not_connected",
            f"The repository {earlier.repo!r} of job {earlier.id!r} is no longer connected; "
            "create a new job for a connected one.",
        )


async def _check_branch(tx: Transaction, organization_id: str, earlier: EarlierJob) -> None:
    if earlier.status not in FINAL:
        raise job_still_active(earlier.id)
    if earlier.status != COMPLETED:
        raise Problem(
            "pull_not_open",
            f"Job {earlier.id!r} is {earlier.status} and has no pull request to continue; "
            "create a new job, or follow up on one that completed.",
        )
    if await has_report(tx, earlier.id):
        raise Problem(
            "pull_not_open",
            f"Job {earlier.id!r} completed with a report and has no pull request to continue; "
            "create a new job.",
        )
    # Locked until the end of the transaction, so that concurrent requests see each other.
    pull = await lock_pull(tx, earlier.repo_id, earlier.branch)
    if pull is None or pull.state != "open":
        name = "The pull request" if pull is None else f"Pull request {pull.number}"
        state = "no longer exists" if pull is None else f"is already {pull.state}"
        raise Problem("pull_not_open", f"{name} of this job {state}; create a new job.")
    other = await active_job_on(tx, organization_id, earlier.repo_id, earlier.branch)
    if other is not None:
        raise job_still_active(other)


def job_still_active(job_id: str) -> Problem:
    return Problem(
        "follow_up_active",
        f"Job {job_id!r} is working on this pull request; wait until it finishes, or cancel it.",
        details={"job_id": job_id},
    )


def _check_request(
    context: JobsContext, caller: Caller, request: CreateJobRequest, admission: Admission
) -> None:
    agent = context.catalog.get(request.agent)
    if agent is not None and agent.result == "report":
        raise Problem(
            "validation_failed",
            f"The agent {agent.id!r} writes a report and cannot change a pull request; create a job"
            " with it, or name another agent for this follow-up.",
            details=[{"field": "agent", "message": "must be an agent that opens pull requests"}],
        )
    try:
        check_acceptable(context, caller, request, admission)
    except Problem as problem:
        if not isinstance(problem.details, list):
            raise
        # A follow-up has the same fields at the top level.
        details: list[Fault] = [
            {"field": fault["field"].removeprefix(_OVERRIDE_PREFIX), "message": fault["message"]}
            for fault in problem.details
        ]
        message = problem.message.replace(_OVERRIDE_PREFIX, "")
        raise Problem(problem.code, message, details=details) from None
