"""Requests the review of a draft that was marked ready: the event `pr.review_requested`."""

from agentjobs.pulls.pulls import Pull, ready_pull
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks import events


async def mark_ready(db: Database, organization: str, full_name: str, number: int) -> Pull:
    return await ready_pull(db, organization, full_name, number, also=_request_local_review)


async def _request_local_review(tx: Transaction, pull: Pull) -> None:
    await request_review(tx, pull.repo_id, pull.number)


async def request_review(tx: Transaction, repo_id: str, number: int) -> None:
    """Emits at most once per job, by the latest job of the pull request, if there is one."""
    job = await tx.fetch_one(
        "UPDATE jobs SET last_sequence = last_sequence + 1"
        " WHERE id = (SELECT MAX(j.id) FROM jobs j WHERE j.repo_id = :repo_id"
        "  AND j.pr_number = :number AND j.status = 'completed')"
        " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.job_id = jobs.id AND e.event = :event)"
        " RETURNING id, organization_id, last_sequence, repo, pr_url",
        repo_id=repo_id,
        number=number,
        event=events.PR_REVIEW_REQUESTED,
    )
    if job is not None:
        requested = events.JobEvent(
            event=events.PR_REVIEW_REQUESTED,
            organization_id=job["organization_id"],
            job_id=job["id"],
            sequence=job["last_sequence"],
            repo=job["repo"],
            pr_url=job["pr_url"],
            at_ms=await tx.clock_ms(),
        )
        await events.record_events(tx, [requested])
        tx.announce(f"job:{job['id']}")
