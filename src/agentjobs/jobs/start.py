"""The moment before the agent is spawned: `running` and `job.started` in one transaction."""

from agentjobs.clock import now_ms
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.outcomes import ClaimLost
from agentjobs.jobs.states import RUNNING
from agentjobs.jobs.transition import Change, apply
from agentjobs.store.database import Database, Transaction


async def start_job(db: Database, job: ClaimedJob, base_commit: str) -> None:
    if not await db.transact(_start, job, base_commit):
        raise ClaimLost


async def _start(tx: Transaction, job: ClaimedJob, base_commit: str) -> bool:
    now = now_ms()
    columns = {"started_at": now, "attempt": job.attempt + 1, "base_commit": base_commit}
    return await apply(tx, Change(job.id, RUNNING, now, job.fence, columns))
