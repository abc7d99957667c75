"""The moment before the agent is spawned: `running` and `job.started` in one transaction."""

from typing import Any

from agentjobs.clock import now_ms
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.transition import Change, apply
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import ClaimLost


async def start_job(
    db: Database, job: ClaimedJob, base_commit: str, prompt: str | None = None
) -> None:
    """`prompt` is what the agent is told; None keeps what an earlier attempt was."""
    if not await db.transact(_start, job, base_commit, prompt):
        raise ClaimLost


async def _start(tx: Transaction, job: ClaimedJob, base_commit: str, prompt: str | None) -> bool:
    now = now_ms()
    columns: dict[str, Any] = {
        "started_at": now,
        "attempt": job.attempt + 1,
        "base_commit": base_commit,
    }
    if prompt is not None:
        # What an earlier attempt's check found says nothing of this one.
        columns |= {"prompt": prompt, "verification": None}
    return await apply(tx, Change(job.id, RUNNING, now, job.fence, columns))
