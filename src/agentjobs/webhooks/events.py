"""Events as the outside sees them: five fields, encoded once, kept byte for byte.

Written in the transaction of the state change that causes them. Knows of jobs only the facts it
is handed.
"""

import msgspec

from agentjobs.clock import iso_utc
from agentjobs.identifiers import new_id
from agentjobs.store.database import Transaction

JOB_QUEUED = "job.queued"
JOB_STARTED = "job.started"
JOB_COMPLETED = "job.completed"
JOB_FAILED = "job.failed"
PR_REVIEW_REQUESTED = "pr.review_requested"


class Payload(msgspec.Struct, frozen=True):
    """The body of a delivery: exactly these fields, in this order."""

    event: str
    job_id: str
    repo: str
    pr_url: str | None
    timestamp: str


async def record_event(
    tx: Transaction,
    event: str,
    *,
    job_id: str,
    sequence: int,
    repo: str,
    pr_url: str | None,
    at_ms: int,
) -> None:
    payload = Payload(event, job_id, repo, pr_url, iso_utc(at_ms))
    await tx.execute(
        "INSERT INTO events (job_id, sequence, id, event, body, created_at)"
        " VALUES (:job_id, :sequence, :id, :event, :body, :created_at)",
        job_id=job_id,
        sequence=sequence,
        id=new_id("evt"),
        event=event,
        body=msgspec.json.encode(payload),
        created_at=at_ms,
    )
