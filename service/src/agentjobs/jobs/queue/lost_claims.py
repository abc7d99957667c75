"""Claims that ended before their run did, and how many of them a job may have.

A worker that returns was only cut off from the database: its claims do not count as lost workers.
"""

import msgspec

from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS

# A repository that kills workers before the agent starts must not do so endlessly.
MAX_LOST_IN_PREPARATION = 10
# How long a job that is repeatedly cut off from the database is requeued.
MAX_CUT_OFF_MS = DAY_MS
# A pod that a cluster evicts at once must not be created endlessly.
MAX_LOST_SANDBOXES = 20
# How long a job is requeued anyway if the machines of its workers are exhausted.
MIN_EXHAUSTED_MS = DAY_MS // 24
# An agent that ends its workers must not do so endlessly.
MAX_ADOPTIONS = 10
# How a claim ended; only those of workers count as lost workers.
_WORKER = "worker"
_SANDBOX = "sandbox"
_ADOPTION = "adoption"
# A heartbeat after the lease expired: the worker is back, and no longer renews this claim.
HAS_RETURNED = (
    "EXISTS (SELECT 1 FROM workers w WHERE w.id = q.lease_owner"
    " AND w.heartbeat_at > q.lease_expires_at)"
)


class LostClaims(msgspec.Struct, frozen=True):
    """The lost claims of a job: by dead workers during its runs and before them, and when a
    worker was first cut off."""

    during_runs: int
    during_preparation: int
    first_cut_off_at: int | None


async def count_lost_claims(tx: Transaction, job_id: str, now: int) -> LostClaims:
    """All that the job has lost, and the claim that it still has."""
    rows = await tx.fetch_all(
        "SELECT lost_at, started, was_alive FROM lost_claims"
        " WHERE job_id = :job_id AND kind = :kind UNION ALL SELECT CAST(:now AS BIGINT),"
        f" j.status = 'running', {HAS_RETURNED} FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.job_id = :job_id",
        job_id=job_id,
        kind=_WORKER,
        now=now,
    )
    dead = [bool(row["started"]) for row in rows if not row["was_alive"]]
    return LostClaims(
        during_runs=sum(dead),
        during_preparation=len(dead) - sum(dead),
        first_cut_off_at=min((row["lost_at"] for row in rows if row["was_alive"]), default=None),
    )


async def record_lost_claim(tx: Transaction, job_id: str, now: int) -> None:
    """Add the claim that the job still has."""
    await _record(tx, job_id, now, _WORKER, was_alive=HAS_RETURNED)


async def record_lost_sandbox(tx: Transaction, job_id: str, now: int) -> int:
    """Add the claim that the job still has; return how many sandboxes the job lost."""
    await _record(tx, job_id, now, _SANDBOX)
    return await _count(tx, job_id, _SANDBOX)


async def record_adoption(tx: Transaction, job_id: str, now: int) -> bool:
    """Add the claim that the job still has, unless its workers died too often."""
    if await _count(tx, job_id, _ADOPTION) >= MAX_ADOPTIONS:
        return False
    await _record(tx, job_id, now, _ADOPTION)
    return True


async def _record(
    tx: Transaction, job_id: str, now: int, kind: str, *, was_alive: str = "TRUE"
) -> None:
    """`was_alive` is an SQL condition."""
    await tx.execute(
        "INSERT INTO lost_claims (job_id, fence, worker_id, kind, lost_at, started, was_alive)"
        " SELECT q.job_id, q.fence, q.lease_owner, CAST(:kind AS TEXT), CAST(:now AS BIGINT),"
        f" j.status = 'running', {was_alive} FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.job_id = :job_id",
        job_id=job_id,
        now=now,
        kind=kind,
    )


async def _count(tx: Transaction, job_id: str, kind: str) -> int:
    row = await tx.fetch_one(
        "SELECT COUNT(*) AS lost FROM lost_claims WHERE job_id = :job_id AND kind = :kind",
        job_id=job_id,
        kind=kind,
    )
    return 0 if row is None else int(row["lost"])


async def mark_alive(tx: Transaction, worker_id: str) -> None:
    """The worker returned; it had only lost its connection to the database."""
    await tx.execute(
        "UPDATE lost_claims SET was_alive = TRUE WHERE worker_id = :worker_id AND NOT was_alive",
        worker_id=worker_id,
    )


def describe_failure(claims: LostClaims, now: int, retries: int) -> str | None:
    """Why the job is not requeued again, as a message; None if it is. Pure."""
    if claims.during_runs > retries:
        return f"This job lost its worker {claims.during_runs} times; it is not retried."
    if claims.during_preparation >= MAX_LOST_IN_PREPARATION:
        return (
            f"{claims.during_preparation} workers were lost while they prepared this job; it is"
            " not retried."
        )
    if claims.first_cut_off_at is not None and now - claims.first_cut_off_at >= MAX_CUT_OFF_MS:
        return (
            "The workers of this job were cut off from the database repeatedly for 24 hours; it"
            " is not retried."
        )
    return None
