"""A claim on a job: what its worker knows about the job, and which branch it may write."""

import msgspec

from agentjobs.jobs.states import RUNNING
from agentjobs.organizations.tokens import token_hash
from agentjobs.store.database import Row, Transaction, to_struct
from agentjobs_runtime.protocol.cause import stored_cause
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.verification import stored_verification

# The lease owner of jobs whose finished work the service publishes.
PUBLISHER = "service"
# The job with the parameters `job_id` and `fence`, if its claim is held; the claim cannot end
# before the transaction does.
CLAIMED_JOB = (
    "(SELECT job_id FROM job_queue WHERE job_id = :job_id AND fence = :fence"
    " AND lease_owner IS NOT NULL /*postgresql FOR SHARE */)"
)


def is_on_worker(queue: str) -> str:
    """An SQL condition: the job takes a slot, and a place in its plan."""
    return f"{queue}.lease_owner IS NOT NULL AND {queue}.lease_owner <> '{PUBLISHER}'"


def claimed_job(row: Row, credential: str, claimed_at: int) -> ClaimedJob:
    is_adopted = row["status"] == RUNNING and row["kept_at"] is None
    return to_struct(
        row,
        ClaimedJob,
        repo_is_connected=row["disconnected_at"] is None,
        config_override=msgspec.json.decode(row["config_override"]),
        # Counts earlier attempts: that of the running agent is not over.
        attempt=row["attempt"] - is_adopted,
        was_started_before=row["started_at"] is not None,
        credential=credential,
        lifted_paths=tuple(msgspec.json.decode(row["lifted_paths"])),
        verification=stored_verification(row["verification"]),
        cause=stored_cause(row["cause"]),
        external_id=row["external_id"] or "",
        has_outage=bool(row["has_outage"]),
        adopted_base=row["base_commit"] if is_adopted else None,
        claimed_at=claimed_at,
    )


async def may_write_branch(tx: Transaction, repo_id: str, branch: str, credential: str) -> bool:
    """Whether a claimed, uncancelled job may write its branch.

    Checked in the caller's transaction, so that a claim cannot end in between.
    """
    row = await tx.fetch_one(
        "SELECT j.id FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.credential_hash = :hash AND q.repo_id = :repo_id AND q.lease_owner IS NOT NULL"
        " AND j.branch = :branch AND j.cancel_requested_at IS NULL"
        " AND EXISTS (SELECT 1 FROM repos r WHERE r.id = :repo_id AND r.disconnected_at IS NULL)"
        " /*postgresql FOR SHARE OF q, j */",
        hash=token_hash(credential),
        repo_id=repo_id,
        branch=branch,
    )
    return row is not None


async def lock_job(tx: Transaction, job_id: str) -> None:
    """For changes without a claim, before they read the job.

    Every change of a job's status locks its row in `job_queue` first. A statement that waits for
    the lock reads other tables as they were before, so only a later one sees what changed.
    """
    await tx.fetch_one(
        "SELECT job_id FROM job_queue WHERE job_id = :job_id /*postgresql FOR UPDATE */",
        job_id=job_id,
    )


async def lock_claim(tx: Transaction, job: ClaimedJob) -> bool:
    """Whether the claim is held; it cannot end before the transaction does."""
    row = await tx.fetch_one(
        "SELECT job_id FROM job_queue WHERE job_id = :job_id AND fence = :fence"
        " AND lease_owner IS NOT NULL /*postgresql FOR UPDATE */",
        job_id=job.id,
        fence=job.fence,
    )
    return row is not None
