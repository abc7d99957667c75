"""Puts a job into the queue: its rows, its branch name, its labels and the event `job.queued`."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.states import QUEUED
from agentjobs.organizations.authentication import Caller
from agentjobs.store.batch_statement import Table, insert_rows
from agentjobs.store.database import Transaction
from agentjobs.webhooks import events
from agentjobs_runtime.protocol.cause import Cause

_SHORT_ID_LENGTH = 12
_MAX_TICKET_LENGTH = 60
_NOT_IN_BRANCH = re.compile(r"[^A-Za-z0-9_.-]+|\.\.+")


# How much earlier or later than its creation a job is placed. A job of low priority is overtaken by
# jobs of the next two hours at most, so that it starts one day.
PRIORITY_MS = {"high": -3_600_000, "normal": 0, "low": 3_600_000}
_JOBS = Table(
    "jobs",
    {
        "id": "text",
        "organization_id": "text",
        "repo_id": "text",
        "repo": "text",
        "agent": "text",
        "ticket_id": "text",
        "config_override": "text",
        "status": "text",
        "last_sequence": "bigint",
        "created_at": "bigint",
        "queued_at": "bigint",
        "branch": "text",
        "created_by": "text",
        "created_by_name": "text",
        "follows": "text",
        "cause": "text",
        "labels": "text",
        "traceparent": "text",
    },
)
_QUEUE = Table(
    "job_queue",
    {
        "job_id": "text",
        "organization_id": "text",
        "repo_id": "text",
        "agent": "text",
        "queue_order": "bigint",
    },
)
_LABELS = Table(
    "job_labels", {"organization_id": "text", "key": "text", "value": "text", "job_id": "text"}
)


class NewJob(msgspec.Struct, frozen=True):
    """A follow-up names the job that it `follows` and that job's `branch`; `cause` is why the
    service created the job itself. `traceparent` is the trace of the request."""

    id: str
    caller: Caller
    repo_id: str
    body: CreateJobRequest
    branch: str | None = None
    follows: str | None = None
    cause: Cause | None = None
    traceparent: str | None = None


async def insert_job(tx: Transaction, job: NewJob) -> None:
    endpoints = await events.read_endpoints(tx, [job.caller.organization_id])
    await insert_jobs(tx, [job], endpoints)


async def insert_jobs(
    tx: Transaction, jobs: Sequence[NewJob], endpoints: events.Endpoints, *, is_last: bool = False
) -> None:
    """`endpoints` are those of the jobs' organizations; `is_last`: no statement follows."""
    if not jobs:
        return
    now = await tx.clock_ms()
    rows = {
        _JOBS: [_row(job, now) for job in jobs],
        _QUEUE: [_queue_row(job, now) for job in jobs],
        _LABELS: [label for job in jobs for label in _label_rows(job)],
        **events.rows_to_insert(tx, [_queued(job, now) for job in jobs], endpoints),
    }
    tx.announce("jobs")
    await insert_rows(tx, rows, is_last=is_last)


def _row(job: NewJob, now: int) -> dict[str, Any]:
    body, override = job.body, job.body.config_override or {}
    return {
        "id": job.id,
        "organization_id": job.caller.organization_id,
        "repo_id": job.repo_id,
        "repo": body.repo,
        "agent": body.agent,
        "ticket_id": body.ticket_id,
        "config_override": msgspec.json.encode(override).decode() if override else "{}",
        "status": QUEUED,
        "last_sequence": 1,
        "created_at": now,
        "queued_at": now,
        "branch": job.branch or name_branch(job.id, body.agent, body.ticket_id),
        "created_by": job.caller.key_id,
        "created_by_name": job.caller.name,
        "follows": job.follows,
        "cause": None if job.cause is None else msgspec.json.encode(job.cause).decode(),
        "labels": msgspec.json.encode(body.labels).decode() if body.labels else None,
        "traceparent": job.traceparent,
    }


def _queue_row(job: NewJob, now: int) -> dict[str, Any]:
    priority = (job.body.config_override or {}).get("priority", "normal")
    return {
        "job_id": job.id,
        "organization_id": job.caller.organization_id,
        "repo_id": job.repo_id,
        "agent": job.body.agent,
        "queue_order": now + PRIORITY_MS[str(priority)],
    }


def _label_rows(job: NewJob) -> list[dict[str, str]]:
    return [
        {
            "organization_id": job.caller.organization_id,
            "key": key,
            "value": value,
            "job_id": job.id,
        }
        for key, value in (job.body.labels or {}).items()
    ]


def _queued(job: NewJob, now: int) -> events.JobEvent:
    return events.JobEvent(
        event=events.JOB_QUEUED,
        organization_id=job.caller.organization_id,
        job_id=job.id,
        sequence=1,
        repo=job.body.repo,
        pr_url=None,
        at_ms=now,
    )


def name_branch(job_id: str, agent: str, ticket_id: str | None = None) -> str:
    """Derived from the job, so that a retry finds its own branch. The ticket is part of it
    because trackers link branches by it."""
    ticket = _NOT_IN_BRANCH.sub("-", ticket_id or "")[:_MAX_TICKET_LENGTH].strip("-.")
    name = f"agentjobs/{agent}/{job_id[-_SHORT_ID_LENGTH:]}"
    # Git refuses branch names that end in ".lock".
    return f"{name}-{ticket.removesuffix('.lock')}" if ticket else name
