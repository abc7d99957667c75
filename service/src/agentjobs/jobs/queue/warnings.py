"""Warnings of a job: what its client should know although the job did not fail because of it."""

from collections.abc import Iterable

import msgspec

from agentjobs.jobs.model import stored_warnings
from agentjobs.jobs.queue.claim import CLAIMED_JOB
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.claimed_job import ClaimedJob

MAX_WARNINGS = 20
MAX_WARNING_LENGTH = 500


async def add_warnings(tx: Transaction, job: ClaimedJob, messages: Iterable[str]) -> None:
    """Each once, although every attempt may add it. Nothing is stored once the claim is lost."""
    row = await tx.fetch_one(
        f"SELECT warnings FROM jobs WHERE id = {CLAIMED_JOB} /*postgresql FOR UPDATE */",
        job_id=job.id,
        fence=job.fence,
    )
    if row is None:
        return
    known = stored_warnings(row["warnings"])
    new = (message[:MAX_WARNING_LENGTH] for message in messages)
    warnings = list(dict.fromkeys((*known, *new)))[:MAX_WARNINGS]
    await tx.execute(
        "UPDATE jobs SET warnings = :warnings WHERE id = :id",
        id=job.id,
        warnings=msgspec.json.encode(warnings).decode(),
    )
    tx.announce(f"job:{job.id}")
