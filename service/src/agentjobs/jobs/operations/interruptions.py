"""Runs that end without a result: the job returns to the queue, or is published later if its work
is done."""

from agentjobs.jobs.queue import kept_work
from agentjobs.jobs.queue.environment_holds import store_hold
from agentjobs.jobs.queue.lost_claims import (
    MAX_LOST_SANDBOXES,
    MIN_EXHAUSTED_MS,
    record_lost_sandbox,
)
from agentjobs.jobs.queue.platform_outages import record_outage
from agentjobs.jobs.queue.transition import (
    Change,
    apply,
    to_failed,
    to_queued,
    to_reported,
)
from agentjobs.jobs.results.reports import store_report
from agentjobs.jobs.states import RUNNING
from agentjobs.store.database import Row, Transaction
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import (
    MAX_OUTAGE_MS,
    DiskFull,
    EnvironmentHold,
    Interrupted,
    Kept,
    LostSandbox,
    NotReady,
    Outage,
    Outcome,
    Released,
    Reported,
    Unreachable,
    describe_failure,
)

# Such as while the disk of the process is full.
_PUBLISH_AGAIN_MS = 30_000


async def requeue(
    tx: Transaction, job: ClaimedJob, row: Row, outcome: Interrupted
) -> Change | None:
    """How the job continues; None if it stays queued, because its agent never started.

    `row` has its status and attempt, and is locked.
    """
    match outcome:
        case Unreachable():
            return await _postpone(tx, job, row, outcome.outage)
        case NotReady():
            return await _wait_for_environment(tx, job, row, outcome.hold)
        case DiskFull():
            return await _retry_elsewhere(tx, job, row, outcome)
        case LostSandbox():
            return await _replace_sandbox(tx, job, row, outcome)
        case Released():
            return _release(job, row, await tx.clock_ms())


async def keep_after_lost_claim(tx: Transaction, job: ClaimedJob, outcome: Outcome) -> bool:
    """Stores the outcome of a worker that was cut off; False if the job continued without it."""
    if isinstance(outcome, Kept):
        return await kept_work.keep_work_of_lost_claim(tx, job.id, outcome.work)
    if isinstance(outcome, Reported) and await kept_work.run_for_finished_work(tx, job.id):
        now = await tx.clock_ms()
        await store_report(tx, job.id, outcome.report, now)
        return await apply(tx, to_reported(job.id, now))
    return False


def _release(job: ClaimedJob, row: Row, now: int) -> Change | None:
    """The change that requeues the job without spending an attempt."""
    if row["status"] != RUNNING:
        return None
    return to_queued(job.id, now, job.fence, attempt=row["attempt"] - 1)


async def _retry_elsewhere(
    tx: Transaction, job: ClaimedJob, row: Row, outcome: DiskFull
) -> Change | None:
    """A started agent spends an attempt: it may be what fills the disks."""
    if row["status"] != RUNNING:
        return None
    now = await tx.clock_ms()
    if row["attempt"] >= outcome.max_attempts:
        return to_failed(job.id, now, outcome.failure.code, outcome.failure.message, job.fence)
    return to_queued(job.id, now, job.fence)


async def _replace_sandbox(
    tx: Transaction, job: ClaimedJob, row: Row, outcome: LostSandbox
) -> Change | None:
    now = await tx.clock_ms()
    lost = await record_lost_sandbox(tx, job.id, now)
    is_young = outcome.is_host_exhausted and now - job.created_at < MIN_EXHAUSTED_MS
    if lost < MAX_LOST_SANDBOXES or is_young:
        return _release(job, row, now)
    message = f"{outcome.failure.message} This was sandbox {lost} of the job; it is not retried."
    return to_failed(job.id, now, outcome.failure.code, message, job.fence)


async def publish_later(tx: Transaction, job: ClaimedJob, outcome: Interrupted) -> Change | None:
    """The change that fails the job after a day; None if its work stays kept."""
    if isinstance(outcome, Unreachable):
        await record_outage(tx, outcome.outage)
    now = await tx.clock_ms()
    reason = describe_failure(outcome)
    if reason is not None and now - (job.kept_at or now) >= kept_work.MAX_AGE_MS:
        message = kept_work.expiry_message(reason)
        return to_failed(job.id, now, "repo_unavailable", message, job.fence)
    # An outage says itself when the next attempt is due.
    delay_ms = _PUBLISH_AGAIN_MS if isinstance(outcome, DiskFull) else 0
    await kept_work.publish_later(tx, job, delay_ms)
    return None


async def _postpone(tx: Transaction, job: ClaimedJob, row: Row, outage: Outage) -> Change | None:
    """Wait until the platform or tracker responds; after a day, fail."""
    since = await record_outage(tx, outage)
    now = await tx.clock_ms()
    is_of_platform = outage.key in job.platform_keys
    if now - max(since, job.created_at) < MAX_OUTAGE_MS:
        if not is_of_platform:
            await _wait_for_tracker(tx, job, outage.key)
        return _release(job, row, now)
    code, what = ("repo_unavailable", "platform") if is_of_platform else ("forge_error", "tracker")
    message = f"The {what} has been unreachable for 24 hours: {outage.message}"
    return to_failed(job.id, now, code, message, job.fence)


async def _wait_for_tracker(tx: Transaction, job: ClaimedJob, key: str) -> None:
    """Only the jobs that asked a tracker wait for it: the others may not need it."""
    await tx.execute(
        "UPDATE job_queue SET waits_for = :key WHERE job_id = :job_id AND fence = :fence",
        job_id=job.id,
        fence=job.fence,
        key=key,
    )


async def _wait_for_environment(
    tx: Transaction, job: ClaimedJob, row: Row, hold: EnvironmentHold
) -> Change | None:
    await store_hold(tx, hold)
    await tx.execute(
        "UPDATE job_queue SET environment_key = :key WHERE job_id = :job_id AND fence = :fence",
        job_id=job.id,
        fence=job.fence,
        key=hold.key,
    )
    return _release(job, row, await tx.clock_ms())
