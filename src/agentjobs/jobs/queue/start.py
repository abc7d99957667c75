"""Marks a job as running, right before its agent starts: the row and `job.started`."""

from typing import Any

from agentjobs.clock import now_ms
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.transition import Change, apply_all
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Database
from agentjobs.store.grouping import transact_together
from agentjobs.store.leases import ClaimLost


async def start_job(
    db: Database, job: ClaimedJob, base_commit: str, prompt: str | None = None
) -> None:
    """`prompt` is the agent's prompt; None keeps that of an earlier attempt. Raises ClaimLost."""
    change = _to_running(job, base_commit, prompt)
    if not await transact_together(db, apply_all, change):
        raise ClaimLost


def _to_running(job: ClaimedJob, base_commit: str, prompt: str | None) -> Change:
    now = now_ms()
    columns: dict[str, Any] = {
        "started_at": now,
        "attempt": job.attempt + 1,
        "base_commit": base_commit,
    }
    if prompt is not None:
        # The verification of an earlier attempt does not apply to this one.
        columns |= {"prompt": prompt, "verification": None}
    return Change(job.id, RUNNING, now, job.fence, columns)
