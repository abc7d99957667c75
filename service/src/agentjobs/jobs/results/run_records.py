"""What a run records in the row of its job, while it holds the claim."""

from collections.abc import Awaitable, Callable

import msgspec

from agentjobs.gateway.spending import Totals
from agentjobs.jobs.model import TicketDetails
from agentjobs.jobs.queue.claim import CLAIMED_JOB, lock_claim
from agentjobs.store.database import Transaction
from agentjobs.store.in_transaction import in_large_transaction, in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.records import EnvironmentView
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.verification import Verification


@in_transaction
async def record_environment(tx: Transaction, job: ClaimedJob, view: EnvironmentView) -> None:
    await _set_claimed(tx, job, "environment", _encode(view))


@in_transaction
async def record_phases(tx: Transaction, job: ClaimedJob, phases: str) -> None:
    await _set_claimed(tx, job, "phases", phases)
    tx.announce(f"job:{job.id}")


@in_transaction
async def record_verification(tx: Transaction, job: ClaimedJob, verification: Verification) -> None:
    """Stored before the push: an attempt that adopts the branch needs it. Raises ClaimLost."""
    if not await _set_claimed(tx, job, "verification", _encode(verification)):
        raise ClaimLost


async def record_ticket(tx: Transaction, job: ClaimedJob, details: TicketDetails | None) -> None:
    await tx.execute(
        "UPDATE job_queue SET waits_for = NULL WHERE job_id = :job_id AND fence = :fence",
        job_id=job.id,
        fence=job.fence,
    )
    await tx.execute(
        f"UPDATE jobs SET ticket = :ticket WHERE id = {CLAIMED_JOB}",
        job_id=job.id,
        fence=job.fence,
        ticket=_encode(details),
    )
    tx.announce(f"job:{job.id}")


async def claim_ticket_link(tx: Transaction, job: ClaimedJob) -> bool:
    """Claimed before the link is made: rather no link than two."""
    changed = await tx.execute(
        "UPDATE jobs SET ticket_linked_at = :now"
        f" WHERE id = {CLAIMED_JOB} AND ticket_linked_at IS NULL",
        job_id=job.id,
        fence=job.fence,
        now=now_ms(),
    )
    return changed > 0


def usage_writer(job_id: str) -> Callable[[Transaction, Totals], Awaitable[None]]:
    """Updates the job's `usage` in the transaction in which the gateway charges a request.

    Not fenced: money that was spent counts, whoever holds the job now.
    """

    async def write(tx: Transaction, totals: Totals) -> None:
        await tx.execute(
            "UPDATE jobs SET usage = :usage WHERE id = :job_id",
            usage=_encode(totals.as_usage()),
            job_id=job_id,
        )

    return write


async def _set_claimed(tx: Transaction, job: ClaimedJob, column: str, text: str) -> bool:
    changed = await tx.execute(
        f"UPDATE jobs SET {column} = :text WHERE id = {CLAIMED_JOB}",
        text=text,
        job_id=job.id,
        fence=job.fence,
    )
    return changed > 0


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


@in_large_transaction
async def remove_results(tx: Transaction, job: ClaimedJob) -> None:
    """Remove what an earlier attempt left, so that it is not taken for the work of the next one.

    Raises ClaimLost.
    """
    for table in ("job_artifacts", "job_diffs", "job_steps"):
        await tx.execute(f"DELETE FROM {table} WHERE job_id = :job_id", job_id=job.id)
    if not await lock_claim(tx, job):
        raise ClaimLost
