"""Marks a job as running, right before its agent starts: the row and `job.started`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentjobs.jobs.queue.claim import lock_claim
from agentjobs.jobs.queue.transition import Change, apply_all
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Database, Transaction
from agentjobs.store.grouping import transact_together
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost


class _Start(msgspec.Struct, frozen=True):
    job: ClaimedJob
    base_commit: str
    prompt: str | None
    phases: str | None


async def start_job(
    db: Database,
    job: ClaimedJob,
    base_commit: str,
    prompt: str | None = None,
    phases: str | None = None,
) -> None:
    """`prompt` is the agent's prompt; None keeps that of an earlier attempt. `phases` are those
    of its runs, as stored. Raises ClaimLost.

    Clients have already seen the start of an adopted job.
    """
    if job.is_adopted:
        if not await db.transact(lock_claim, job):
            raise ClaimLost
        return
    if not await transact_together(db, _start_all, _Start(job, base_commit, prompt, phases)):
        raise ClaimLost


async def _start_all(tx: Transaction, starts: Sequence[_Start]) -> list[bool]:
    # The end is stored by the same clock, so that no job ends before it started.
    now = await tx.clock_ms()
    return await apply_all(tx, [_to_running(start, now) for start in starts], is_last=True)


def _to_running(start: _Start, now: int) -> Change:
    columns: dict[str, Any] = {
        "started_at": now,
        "attempt": start.job.attempt + 1,
        "base_commit": start.base_commit,
    }
    if start.phases is not None:
        columns["phases"] = start.phases
    if start.prompt is not None:
        # The verification of an earlier attempt does not apply to this one.
        columns |= {"prompt": start.prompt, "verification": None}
    return Change(start.job.id, RUNNING, now, start.job.fence, columns)
