"""Finished work that could not be published: it is kept with its job, on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.kept_work import (
    claim_kept_work,
    fail_expired_work,
    load_kept_work,
    renew_publishing,
)
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.queries import get_job
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.pauses import pause, resume
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.claimed_job import LOCAL, ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Cancelled,
    Completed,
    DiskFull,
    Failed,
    Kept,
    KeptWork,
    Outage,
    Released,
    Unreachable,
)
from tests.support.jobs import JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
WORK = KeptWork(BASE, COMMIT, b"a bundle")
LEASE_MS = 10_000
DONE = Completed("http://x/1", 1, COMMIT, draft=False)


async def kept_job(harness: JobHarness, caller: Caller) -> str:
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE, "the prompt")
    assert await finish_job(harness.db, claimed, Kept(WORK))
    return job_id


async def age(tx: Transaction, job_id: str, ms: int) -> None:
    await tx.execute("UPDATE jobs SET kept_at = kept_at - :ms WHERE id = :id", ms=ms, id=job_id)


async def claim_work(harness: JobHarness) -> ClaimedJob:
    [job] = await claim_kept_work(harness.db, 4, LEASE_MS)
    return job


async def nobody_publishes(harness: JobHarness) -> bool:
    return await claim_kept_work(harness.db, 4, LEASE_MS) == []


async def test_a_job_with_finished_work_runs_on_without_a_worker(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    assert (await harness.view(caller, job_id)).status == "running"
    assert await harness.nothing_to_claim()
    claimed = await claim_work(harness)
    assert (claimed.id, claimed.kept_at is not None) == (job_id, True)
    assert await nobody_publishes(harness)
    assert await load_kept_work(harness.db, job_id) == WORK
    assert await finish_job(harness.db, claimed, DONE)
    job = await harness.view(caller, job_id)
    assert (job.status, job.pr_number, job.attempt) == ("completed", 1, 1)
    assert await harness.events(caller, job_id) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]
    assert await load_kept_work(harness.db, job_id) is None


async def test_work_is_stored_and_deleted_in_large_transactions(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, others block the event loop for a fifth of a second with 32 MiB."""
    calls: list[str] = []
    transact_large = harness.db.transact_large

    async def record(work: Callable[..., Any], *arguments: Any) -> Any:
        calls.append(work.__name__)
        return await transact_large(work, *arguments)

    caller = await harness.organization()
    monkeypatch.setattr(harness.db, "transact_large", record)
    await kept_job(harness, caller)
    await finish_job(harness.db, await claim_work(harness), DONE)
    await cancel_job(harness.db, caller.organization_id, await kept_job(harness, caller))
    await fail_expired_work(harness.db)
    assert calls == ["_finish_all", "_finish_all", "_finish_all", "_cancel", "fail_expired_work"]


async def test_a_kept_job_frees_its_place_in_the_plan(harness: JobHarness) -> None:
    caller = await harness.organization(plan="free")
    await kept_job(harness, caller)
    await claim_work(harness)
    await harness.job(caller)
    await harness.claim()


FULL = DiskFull(Failed("sandbox_error", "The disk is full."), 0)


@pytest.mark.parametrize("outcome", [Released(), Unreachable(Outage(LOCAL, "away")), FULL])
async def test_work_stays_kept_while_it_cannot_be_published(
    harness: JobHarness, outcome: Released | Unreachable | DiskFull
) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    before = await harness.events(caller, job_id)
    assert await finish_job(harness.db, await claim_work(harness), outcome)
    assert await load_kept_work(harness.db, job_id) == WORK
    assert await harness.events(caller, job_id) == before
    assert await nobody_publishes(harness) == (not isinstance(outcome, Released))


async def test_work_that_waits_for_its_platform_says_so(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    assert (await harness.view(caller, job_id)).queue_reason is None
    await finish_job(harness.db, await claim_work(harness), Unreachable(Outage(LOCAL, "away")))
    # The other one has read the outages less than a second ago.
    context = JobsContext(harness.db, harness.context.settings, harness.context.catalog)
    job = await get_job(context, caller.organization_id, job_id)
    assert (job.status, job.queue_reason) == ("running", "platform_unreachable")


async def test_a_process_lost_while_publishing_leaves_the_work_to_the_others(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    for _ in range(12):
        lost = await claim_work(harness)
        await harness.expire_leases()
        assert await rescue_lost_jobs(harness.db, harness.context.settings) == []
    claimed = await claim_work(harness)
    assert await load_kept_work(harness.db, job_id) == WORK
    assert not await renew_publishing(harness.db, lost, LEASE_MS)
    assert not await finish_job(harness.db, lost, DONE)
    assert await renew_publishing(harness.db, claimed, LEASE_MS)
    assert await finish_job(harness.db, claimed, DONE)


async def test_work_kept_before_a_pause_is_published_after_it(harness: JobHarness) -> None:
    await ensure_default(harness.db, harness.context.plans)
    caller = await harness.organization()
    before = await kept_job(harness, caller)
    await harness.job(caller)
    running = await harness.claim()
    await start_job(harness.db, running, BASE, "the prompt")
    await harness.db.transact(age, before, 1_000)
    await pause(harness.db)
    assert await nobody_publishes(harness)
    # Jobs that run go on.
    assert await finish_job(harness.db, running, Kept(WORK))
    assert (await claim_work(harness)).id == running.id
    await resume(harness.db)
    assert (await claim_work(harness)).id == before


async def test_kept_work_ends_with_its_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    cancelled = await kept_job(harness, caller)
    await cancel_job(harness.db, caller.organization_id, cancelled)
    assert await load_kept_work(harness.db, cancelled) is None
    failed = await kept_job(harness, caller)
    assert await finish_job(harness.db, await claim_work(harness), Failed("push_rejected", "no"))
    assert await load_kept_work(harness.db, failed) is None
    disconnected = await kept_job(harness, caller)
    await disconnect_repository(harness.db, "acme", "acme/shop")
    assert await load_kept_work(harness.db, disconnected) is None


async def test_a_requested_cancel_overrides_keeping(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert await finish_job(harness.db, claimed, Kept(WORK))
    assert (await harness.view(caller, job_id)).status == "cancelled"
    assert await load_kept_work(harness.db, job_id) is None


@pytest.mark.parametrize(("outcome", "status"), [(Cancelled(), "cancelled"), (DONE, "completed")])
async def test_a_cancel_during_publishing_waits_for_the_publisher(
    harness: JobHarness, outcome: Cancelled | Completed, status: str
) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    claimed = await claim_work(harness)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert (await harness.view(caller, job_id)).status == "running"
    assert not await harness.db.transact(
        may_write_branch, claimed.repo_id, claimed.branch, claimed.credential
    )
    assert await finish_job(harness.db, claimed, outcome)
    assert (await harness.view(caller, job_id)).status == status


async def test_work_that_was_kept_for_a_day_fails_its_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    expired, fresh = await kept_job(harness, caller), await harness.job(caller)
    assert await fail_expired_work(harness.db) == 0
    await harness.db.transact(age, expired, DAY_MS + 1)
    assert await fail_expired_work(harness.db) == 1
    job = await harness.view(caller, expired)
    assert job.error is not None
    assert (job.status, job.error.code) == ("failed", "repo_unavailable")
    assert await load_kept_work(harness.db, expired) is None
    assert (await harness.view(caller, fresh)).status == "queued"


@pytest.mark.parametrize(
    "outcome",
    [
        Unreachable(Outage(LOCAL, "no route")),
        DiskFull(Failed("sandbox_error", "no route to the disk"), 0),
    ],
)
async def test_a_last_attempt_after_a_day_fails_the_job_with_its_reason(
    harness: JobHarness, outcome: Unreachable | DiskFull
) -> None:
    caller = await harness.organization()
    job_id = await kept_job(harness, caller)
    await harness.db.transact(age, job_id, DAY_MS + 1)
    claimed = await claim_work(harness)
    assert await fail_expired_work(harness.db) == 0
    assert await finish_job(harness.db, claimed, outcome)
    job = await harness.view(caller, job_id)
    assert job.error is not None
    assert job.error.code == "repo_unavailable"
    assert "no route" in job.error.message


async def cut_off(harness: JobHarness) -> ClaimedJob:
    """A worker that finished the agent and lost its claim."""
    claimed = await harness.claim("wrk_cut_off")
    await start_job(harness.db, claimed, BASE)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    return claimed


async def test_a_worker_that_was_cut_off_hands_over_its_work(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    late = await cut_off(harness)
    assert await finish_job(harness.db, late, Kept(WORK))
    assert (await claim_work(harness)).id == job_id
    assert await load_kept_work(harness.db, job_id) == WORK
    expected = ["job.queued", "job.started", "job.queued", "job.started"]
    assert await harness.events(caller, job_id) == expected


async def test_work_that_arrives_during_the_next_preparation_prevents_a_second_run(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    late = await cut_off(harness)
    preparing = await harness.claim()
    assert await finish_job(harness.db, late, Kept(WORK))
    with pytest.raises(ClaimLost):
        await start_job(harness.db, preparing, BASE)
    assert (await claim_work(harness)).kept_at is not None


async def test_work_that_arrives_after_the_next_start_is_refused(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    late = await cut_off(harness)
    await start_job(harness.db, await harness.claim(), BASE)
    assert not await finish_job(harness.db, late, Kept(WORK))
    assert await load_kept_work(harness.db, job_id) is None


async def test_the_agent_is_never_started_for_kept_work(harness: JobHarness) -> None:
    await kept_job(harness, await harness.organization())
    with pytest.raises(ClaimLost):
        await start_job(harness.db, await claim_work(harness), BASE)
