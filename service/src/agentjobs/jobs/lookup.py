"""Whether an organization has a job."""

from agentjobs.jobs.states import JobStatus
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem


def job_not_found(job_id: str) -> Problem:
    return Problem(
        "job_not_found",
        f"There is no job {job_id!r} in this organization; GET /jobs lists its jobs.",
    )


async def ensure_job(db: Database, organization_id: str, job_id: str) -> JobStatus:
    """Return the status. Raises `job_not_found`, also for a job of another organization."""
    row = await db.fetch_one(
        "SELECT status FROM jobs WHERE id = :job_id AND organization_id = :organization_id",
        job_id=job_id,
        organization_id=organization_id,
    )
    if row is None:
        raise job_not_found(job_id)
    status: JobStatus = row["status"]
    return status
