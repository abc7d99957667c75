"""Accepting a job: the checks, the row, its event and its replay answer in one transaction."""

import re

import msgspec

from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.jobs.audit import entry_in_person, write_about
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.idempotency import IdempotencyClaim, first_call, recall, remember
from agentjobs.jobs.model import Cause, CreateJobRequest, Receipt
from agentjobs.jobs.queue.estimate import QueueState, estimated_start_ms
from agentjobs.jobs.queue.fleet import FleetState
from agentjobs.jobs.states import QUEUED
from agentjobs.organizations.audit import Entry
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.budgets import nanousd, usd_text
from agentjobs.problems import Problem
from agentjobs.store.database import Row, Transaction
from agentjobs.webhooks import events

_INDEXING_RETRY_SECONDS = 5
_QUEUE_FULL_RETRY_SECONDS = 30
_SHORT_ID_LENGTH = 12
_MAX_TICKET_LENGTH = 60
_NOT_IN_BRANCH = re.compile(r"[^A-Za-z0-9_.-]+|\.\.+")


class CreatedJob(msgspec.Struct, frozen=True):
    receipt: Receipt
    replayed: bool


async def create_job(
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    *,
    idempotency: IdempotencyClaim | None = None,
    cause: Cause | None = None,
) -> CreatedJob:
    """`cause` only for a job like one that the service asked for by itself."""
    with first_call(context.keys_in_flight, caller.organization_id, idempotency):
        fleet = await context.fleet.state()
        entry = entry_in_person("job.created", repo=body.repo, agent=body.agent)
        return await context.db.transact(
            _create, context, caller, body, idempotency, cause, fleet, entry
        )


async def _create(
    tx: Transaction,
    context: JobsContext,
    caller: Caller,
    body: CreateJobRequest,
    idempotency: IdempotencyClaim | None,
    cause: Cause | None,
    fleet: FleetState,
    entry: Entry | None,
) -> CreatedJob:
    if idempotency is not None:
        earlier = await recall(tx, caller.organization_id, idempotency)
        if earlier is not None:
            return CreatedJob(msgspec.json.decode(earlier, type=Receipt), replayed=True)
    found = await surroundings(tx, caller.organization_id, body.repo)
    check_acceptable(context, caller, body, found)
    estimate = estimated_start_ms(
        QueueState(
            waiting=fleet.startable_of_others(caller.organization_id)
            + found["organization_waiting"],
            active=max(fleet.active, found["organization_active"]),
            organization_waiting=found["organization_waiting"],
            organization_active=found["organization_active"],
        ),
        slots=fleet.slots_for(body.agent),
        organization_limit=context.plans.concurrent_jobs(caller.plan),
        typical_duration_ms=fleet.typical_duration_ms,
    )
    job_id = new_id("job")
    await insert_job(tx, job_id, caller, found["id"], body, cause=cause)
    await write_about(tx, caller.organization_id, job_id, entry)
    receipt = Receipt(job_id, QUEUED, estimate)
    if idempotency is not None:
        await remember(tx, caller.organization_id, idempotency, msgspec.json.encode(receipt))
    tx.announce("jobs")
    return CreatedJob(receipt, replayed=False)


def check_acceptable(
    context: JobsContext, caller: Caller, body: CreateJobRequest, found: Row
) -> None:
    _check_cost(body, found["job_budget_nanousd"])
    if found["id"] is None:
        raise Problem(
            "repo_not_connected",
            f"The repository {body.repo!r} is not connected to this organization; "
            "GET /repos lists those that are.",
        )
    agent = context.catalog.get(body.agent)
    if agent is None:
        raise Problem(
            "unknown_agent",
            f"There is no agent {body.agent!r}; GET /agents lists those there are.",
        )
    if not context.plans.allows(caller.plan, agent.plan_required):
        raise Problem(
            "plan_required",
            f"The agent {agent.id!r} needs the plan {agent.plan_required!r}; "
            f"this organization is on {caller.plan!r}.",
            details={"plan_required": agent.plan_required},
        )
    if found["index_status"] != "ready":
        raise Problem(
            "repo_indexing",
            f"The repository {body.repo!r} is still being indexed; "
            "try again once GET /repos shows it as ready.",
            retry_after_seconds=_INDEXING_RETRY_SECONDS,
        )
    queue_limit = context.settings.queue_limit
    if found["organization_waiting"] >= queue_limit:
        raise Problem(
            "queue_full",
            f"This organization has {queue_limit} jobs queued already; "
            "wait until some have started, or cancel some.",
            retry_after_seconds=_QUEUE_FULL_RETRY_SECONDS,
        )


def _check_cost(body: CreateJobRequest, budget_nanousd: int | None) -> None:
    asked = nanousd((body.config_override or {}).get("max_cost_usd"))
    if asked is not None and budget_nanousd is not None and asked > budget_nanousd:
        message = f"may lower the organization's {usd_text(budget_nanousd)} USD, never raise them"
        raise Problem(
            "validation_failed",
            f"config_override.max_cost_usd {message}.",
            details=[{"field": "config_override.max_cost_usd", "message": message}],
        )


async def surroundings(tx: Transaction, organization_id: str, repo: str) -> Row:
    """The repository and the queue, in one round trip; a row even when there is no repository."""
    row = await tx.fetch_one(
        "SELECT r.id, r.index_status, o.job_budget_nanousd,"
        # Left to itself SQLite walks all jobs of the organization instead.
        " (SELECT COUNT(*) FROM jobs /*sqlite INDEXED BY jobs_waiting */ WHERE status = 'queued'"
        "  AND lease_owner IS NULL AND organization_id = o.id) AS organization_waiting,"
        " (SELECT COUNT(*) FROM jobs /*sqlite INDEXED BY jobs_leased */"
        "  WHERE lease_owner IS NOT NULL AND organization_id = o.id) AS organization_active"
        " FROM organizations o LEFT JOIN repos r ON r.organization_id = o.id"
        "  AND r.full_name = :repo AND r.disconnected_at IS NULL"
        " WHERE o.id = :organization_id",
        organization_id=organization_id,
        repo=repo,
    )
    if row is None:
        raise Problem("unauthorized", "The organization of this key no longer exists.")
    return row


def branch_of(job_id: str, agent: str, ticket_id: str | None = None) -> str:
    """Derived from the job, so that a job run again finds its own work; trackers find theirs."""
    ticket = _NOT_IN_BRANCH.sub("-", ticket_id or "")[:_MAX_TICKET_LENGTH].strip("-.")
    name = f"agentjobs/{agent}/{job_id[-_SHORT_ID_LENGTH:]}"
    # No name of a branch may end like that.
    return f"{name}-{ticket.removesuffix('.lock')}" if ticket else name


async def insert_job(
    tx: Transaction,
    job_id: str,
    caller: Caller,
    repo_id: str,
    body: CreateJobRequest,
    *,
    branch: str | None = None,
    follows: str | None = None,
    cause: Cause | None = None,
) -> None:
    """`follows` is the job whose `branch` it goes on with, `cause` why nobody had to ask."""
    now = now_ms()
    await tx.execute(
        "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, ticket_id, config_override,"
        " status, created_at, queued_at, branch, last_sequence, created_by, created_by_name,"
        " follows, cause) VALUES (:id, :organization_id, :repo_id, :repo, :agent, :ticket_id,"
        " :config_override, 'queued', :now, :now, :branch, 1, :created_by, :created_by_name,"
        " :follows, :cause)",
        id=job_id,
        organization_id=caller.organization_id,
        repo_id=repo_id,
        repo=body.repo,
        agent=body.agent,
        ticket_id=body.ticket_id,
        config_override=msgspec.json.encode(body.config_override or {}).decode(),
        now=now,
        branch=branch or branch_of(job_id, body.agent, body.ticket_id),
        created_by=caller.key_id,
        created_by_name=caller.name,
        follows=follows,
        cause=None if cause is None else msgspec.json.encode(cause).decode(),
    )
    await events.record_event(
        tx,
        events.JOB_QUEUED,
        organization_id=caller.organization_id,
        job_id=job_id,
        sequence=1,
        repo=body.repo,
        pr_url=None,
        at_ms=now,
    )
