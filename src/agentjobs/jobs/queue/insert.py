"""Puts a job into the queue: its row, its branch name and the event `job.queued`."""

import re

import msgspec

from agentjobs.clock import now_ms
from agentjobs.jobs.model import Cause, CreateJobRequest
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs.webhooks import events

_SHORT_ID_LENGTH = 12
_MAX_TICKET_LENGTH = 60
_NOT_IN_BRANCH = re.compile(r"[^A-Za-z0-9_.-]+|\.\.+")


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
    """A follow-up names the job that it `follows` and that job's `branch`; `cause` is why the
    service created the job itself."""
    now = now_ms()
    await tx.execute(
        "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, ticket_id, config_override,"
        " status, created_at, queued_at, branch, last_sequence, created_by, created_by_name,"
        " follows, cause, queue_order) VALUES (:id, :organization_id, :repo_id, :repo, :agent,"
        " :ticket_id, :config_override, 'queued', :now, :now, :branch, 1, :created_by,"
        " :created_by_name, :follows, :cause, :now)",
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
    queued = events.JobEvent(
        event=events.JOB_QUEUED,
        organization_id=caller.organization_id,
        job_id=job_id,
        sequence=1,
        repo=body.repo,
        pr_url=None,
        at_ms=now,
    )
    await events.record_events(tx, [queued])
    tx.announce("jobs")


def branch_of(job_id: str, agent: str, ticket_id: str | None = None) -> str:
    """Derived from the job, so that a retry finds its own branch. The ticket is part of it
    because trackers link branches by it."""
    ticket = _NOT_IN_BRANCH.sub("-", ticket_id or "")[:_MAX_TICKET_LENGTH].strip("-.")
    name = f"agentjobs/{agent}/{job_id[-_SHORT_ID_LENGTH:]}"
    # Git refuses branch names that end in ".lock".
    return f"{name}-{ticket.removesuffix('.lock')}" if ticket else name
