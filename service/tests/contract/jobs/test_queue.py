"""Claims, fences, leases, rescue and cancel, on both databases."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta

import asyncpg
import msgspec
import pytest

from agentjobs.jobs.logs.chunks import append_chunk, read_chunks
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.operations.workers import list_worker_views
from agentjobs.jobs.queue import waiting_organizations
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.leases import (
    cancel_requests,
    delete_silent_workers,
    renew,
    sign_off,
)
from agentjobs.jobs.queue.lost_claims import MAX_LOST_SANDBOXES, MIN_EXHAUSTED_MS
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.queries import get_job, list_jobs, wait_for_change
from agentjobs.store.changes import Signal
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import (
    Cancelled,
    Completed,
    DiskFull,
    Failed,
    LostSandbox,
    Released,
)
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from tests.support.jobs import AGENTS, JobHarness, claim_job, job_harness

BASE = "1" * 40
CARD = WorkerInfo("wrk_a", "host", 2, AGENTS)
DONE = Completed("http://x/1", 1, "2" * 40, draft=False)


async def test_a_claimed_job_stays_queued_until_its_agent_starts(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    assert claimed.id == job_id
    assert (await harness.view(caller, job_id)).status == "queued"
    await start_job(harness.db, claimed, BASE)
    job = await harness.view(caller, job_id)
    assert (job.status, job.attempt) == ("running", 1)
    assert job.started_at is not None


async def test_a_waiting_job_knows_its_place_in_the_queue_of_its_organization(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.job(await harness.organization("busy"))
    normal = [await harness.job(caller) for _ in range(2)]
    urgent = await harness.job(caller, config_override={"priority": "high"})
    positions = [(await harness.view(caller, job)).queue_position for job in (*normal, urgent)]
    assert positions == [2, 3, 1]
    (listed, *_) = (await list_jobs(harness.context, caller.organization_id)).jobs
    assert listed.queue_position is None
    claimed = [await harness.claim(), await harness.claim()]
    assert urgent in {job.id for job in claimed}
    assert (await harness.view(caller, urgent)).queue_position is None
    positions = [(await harness.view(caller, job)).queue_position for job in normal]
    assert positions == [1, 2]


async def test_a_job_tells_how_long_it_ran_and_between_which_commits(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    assert (await harness.view(caller, job_id)).elapsed_ms is None
    await start_job(harness.db, claimed, BASE)
    await harness.db.transact(_start_earlier, job_id, 60_000)
    running = await harness.view(caller, job_id)
    assert running.elapsed_ms is not None
    assert running.elapsed_ms >= 60_000
    assert (running.base_commit, running.head_commit) == (BASE, None)
    await finish_job(harness.db, claimed, DONE)
    done = await harness.view(caller, job_id)
    assert done.started_at is not None
    assert done.completed_at is not None
    ran = datetime.fromisoformat(done.completed_at) - datetime.fromisoformat(done.started_at)
    assert done.elapsed_ms == ran // timedelta(milliseconds=1)
    assert (done.base_commit, done.head_commit) == (BASE, DONE.head_commit)


async def _start_earlier(tx: Transaction, job_id: str, milliseconds: int) -> None:
    await tx.execute(
        "UPDATE jobs SET started_at = started_at - :milliseconds WHERE id = :job_id",
        job_id=job_id,
        milliseconds=milliseconds,
    )


async def test_a_completed_job_shows_its_pull_request_and_emits_its_events(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    assert await finish_job(harness.db, claimed, DONE)
    job = await harness.view(caller, job_id)
    assert (job.status, job.pr_url, job.pr_number) == ("completed", "http://x/1", 1)
    assert job.completed_at is not None
    assert await harness.events(caller, job_id) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]


async def test_a_draft_requests_no_review_yet(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await finish_job(harness.db, claimed, Completed("http://x/1", 1, "2" * 40, draft=True))
    assert (await harness.events(caller, job_id))[-1] == "job.completed"


async def test_a_job_may_fail_before_its_agent_starts(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    assert await finish_job(harness.db, await harness.claim(), Failed("repo_unavailable", "gone"))
    job = await harness.view(caller, job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert (job.error.code, job.error.message, job.error.retryable) == (
        "repo_unavailable",
        "gone",
        True,
    )
    assert await harness.events(caller, job_id) == ["job.queued", "job.failed"]


async def test_only_a_running_job_completes(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    assert not await finish_job(harness.db, await harness.claim(), DONE)


async def test_jobs_of_one_organization_start_in_order(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_ids = [await harness.job(caller) for _ in range(4)]
    assert [(await harness.claim()).id for _ in range(4)] == job_ids


async def test_a_long_queue_of_one_organization_does_not_starve_another(
    harness: JobHarness,
) -> None:
    busy, small = await harness.organization("busy"), await harness.organization("small")
    for _ in range(5):
        await harness.job(busy)
    late = await harness.job(small)
    first, second = await harness.claim(), await harness.claim()
    assert first.organization == "busy"
    assert second.id == late


async def test_with_one_slot_organizations_alternate(harness: JobHarness) -> None:
    busy, small = await harness.organization("busy"), await harness.organization("small")
    for _ in range(3):
        await harness.job(busy)
    for _ in range(2):
        await harness.job(small)
    order = []
    for _ in range(5):
        claimed = await harness.claim()
        order.append(claimed.organization)
        await finish_job(harness.db, claimed, Failed("no_changes", ""))
        # Two claims in one millisecond have no order.
        _wait_for_next_millisecond()
    assert order == ["busy", "small", "busy", "small", "busy"]


def _wait_for_next_millisecond() -> None:
    start = now_ms()
    while now_ms() == start:
        pass


async def test_the_plans_concurrency_holds_jobs_back_with_a_reason(harness: JobHarness) -> None:
    caller = await harness.organization(plan="free")
    await harness.job(caller)
    waiting = await harness.job(caller)
    held = await harness.claim()
    assert await harness.nothing_to_claim()
    assert (await harness.view(caller, waiting)).queue_reason == "plan_limit"
    await start_job(harness.db, held, BASE)
    await finish_job(harness.db, held, DONE)
    assert (await harness.claim()).id == waiting


async def test_concurrent_workers_never_exceed_the_plan_or_share_a_job(harness: JobHarness) -> None:
    caller = await harness.organization(plan="pro")
    for _ in range(12):
        await harness.job(caller)
    claims = await asyncio.gather(
        *(claim_job(harness.context, f"wrk_{n}", AGENTS) for n in range(12))
    )
    job_ids = [job.id for job in claims if job is not None]
    assert len(job_ids) == len(set(job_ids)) == 5


async def test_concurrent_claims_and_ends_never_exceed_the_plan(
    harness: JobHarness, database_url: str
) -> None:
    caller = await harness.organization(plan="free")
    for _ in range(20):
        await harness.job(caller)
    most = 0

    async def work(db: Database, worker_id: str) -> None:
        nonlocal most
        context = JobsContext(db, harness.context.settings, harness.context.catalog)
        for _ in range(12):
            claimed = await claim_job(context, worker_id, AGENTS)
            row = await harness.db.fetch_one(
                "SELECT COUNT(*) AS n FROM job_queue WHERE lease_owner IS NOT NULL"
            )
            assert row is not None
            most = max(most, row["n"])
            if claimed is not None:
                await finish_job(db, claimed, Failed("no_changes", ""))

    other_process = await open_database(database_url, migrate=False)
    try:
        workers = [(db, f"wrk_{n}") for n in range(3) for db in (harness.db, other_process)]
        await asyncio.gather(*(work(db, worker_id) for db, worker_id in workers))
    finally:
        await other_process.close()
    assert most == 1


async def test_the_free_slots_of_a_worker_are_shared_between_organizations(
    harness: JobHarness,
) -> None:
    for name in ("a", "b", "c"):
        caller = await harness.organization(name)
        for _ in range(4):
            await harness.job(caller)
    await harness.job(await harness.organization("d", plan="free"))
    await harness.job(harness.callers["d"])
    claimer = Claimer(harness.context, "wrk_a")
    claimed = await claimer.claim(AGENTS, 7)
    assert Counter(job.organization for job in claimed) == {"a": 2, "b": 2, "c": 2, "d": 1}
    assert len({job.credential for job in claimed}) == 7
    claimed += await claimer.claim(AGENTS, 20)
    assert Counter(job.organization for job in claimed) == {"a": 4, "b": 4, "c": 4, "d": 1}


async def test_one_slot_stays_free_for_an_organization_that_is_expected(
    harness: JobHarness,
) -> None:
    busy, other = await harness.organization("busy"), await harness.organization("other")
    for _ in range(4):
        await harness.job(busy)
    claimer, expected = Claimer(harness.context, "wrk_a"), {other.organization_id}
    assert await claimer.claim(AGENTS, 1, expected) == []
    assert await claimer.claim(AGENTS, 1, postponed={busy.organization_id}) == []
    assert len(await claimer.claim(AGENTS, 2, expected)) == 1
    await harness.job(other)
    [claimed] = await claimer.claim(AGENTS, 1, expected)
    assert claimed.organization == "other"


async def test_a_claim_waits_for_no_organization_whose_jobs_it_cannot_run(
    harness: JobHarness,
) -> None:
    other, own = await harness.organization("other"), await harness.organization("own")
    await harness.job(other, agent="pro-fixer")
    job_id = await harness.job(own)
    [claimed] = await Claimer(harness.context, "wrk_a").claim(["fixer"], 5)
    assert claimed.id == job_id
    # A claim marks the organizations that it locked.
    served = await harness.db.fetch_all("SELECT organization_id FROM claimed_organizations")
    assert [row["organization_id"] for row in served] == [own.organization_id]


async def test_every_organization_is_served_when_more_wait_than_one_claim_compares(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_organizations, "WINDOW", 3)
    waiting = {await harness.job(await harness.organization(f"org{n}")) for n in range(8)}
    claimer = Claimer(harness.context, "wrk_a")
    for _ in range(4):
        waiting -= {job.id for job in await claimer.claim(AGENTS, 2)}
    assert waiting == set()


async def test_organizations_with_long_queues_do_not_hide_those_after_them(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_organizations, "WINDOW", 3)
    names = [f"org{n}" for n in range(5)]
    for name in names:
        caller = await harness.organization(name)
        for _ in range(4):
            await harness.job(caller)
    claimer = Claimer(harness.context, "wrk_a")
    first = [(await claimer.claim(AGENTS, 1))[0].organization for _ in range(6)]
    assert set(first) == set(names)


async def test_jobs_of_one_agent_do_not_hide_organizations_that_wait_for_another(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_organizations, "WINDOW", 2)
    for n in range(6):
        caller = await harness.organization(f"org{n}", plan="pro")
        # Those of one agent are far apart.
        for agent in ("fixer", "pro-fixer") if n in {0, 5} else ("fixer",):
            for _ in range(3):
                await harness.job(caller, agent=agent)
    claimer = Claimer(harness.context, "wrk_a")
    served = {(await claimer.claim(AGENTS, 1))[0].organization for _ in range(9)}
    assert served == {f"org{n}" for n in range(6)}


async def test_jobs_that_end_together_are_stored_together_and_lost_claims_stay_lost(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    for _ in range(4):
        await harness.job(caller)
    jobs = await Claimer(harness.context, "wrk_a").claim(AGENTS, 4)
    await asyncio.gather(*(start_job(harness.db, job, BASE) for job in jobs))
    lost = jobs[1]
    await harness.db.transact(expire, lost.id)
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == [lost.id]
    outcomes = [DONE, DONE, Failed("timeout", "late"), Released()]
    ended = zip(jobs, outcomes, strict=True)
    stored = await asyncio.gather(*(finish_job(harness.db, job, end) for job, end in ended))
    assert stored == [True, False, True, True]
    statuses = [(await harness.view(caller, job.id)).status for job in jobs]
    assert statuses == ["completed", "queued", "failed", "queued"]
    assert await harness.events(caller, jobs[2].id) == ["job.queued", "job.started", "job.failed"]


async def expire(tx: Transaction, job_id: str) -> None:
    await tx.execute(
        "UPDATE job_queue SET lease_expires_at = 1 WHERE job_id = :job_id", job_id=job_id
    )


async def test_a_job_that_no_worker_can_run_has_a_queue_reason(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    assert (await harness.view(caller, job_id)).queue_reason == "no_worker"
    assert await claim_job(harness.context, "wrk_a", ["something-else"]) is None


async def test_a_job_whose_workers_have_full_disks_has_a_queue_reason(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    full = WorkerInfo("wrk_a", "host", 2, AGENTS, is_disk_full=True)
    await renew(harness.db, full, [], 10)
    harness.context.fleet.forget()
    assert (await harness.view(caller, job_id)).queue_reason == "disk_full"
    [stored] = await list_worker_views(harness.db, harness.context.settings)
    assert stored.agents == []
    assert set(stored.unready) == set(AGENTS)
    await renew(harness.db, WorkerInfo("wrk_b", "host", 2, AGENTS), [], 10)
    harness.context.fleet.forget()
    assert (await harness.view(caller, job_id)).queue_reason is None


async def test_a_worker_that_lost_its_claim_changes_nothing(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    dead = await harness.claim("wrk_dead")
    await start_job(harness.db, dead, BASE)
    await harness.expire_leases()
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == [job_id]
    alive = await harness.claim("wrk_alive")
    await start_job(harness.db, alive, BASE)
    before = await harness.events(caller, job_id)

    assert not await finish_job(harness.db, dead, DONE)
    assert not await finish_job(harness.db, dead, Failed("agent_failed", "x"))
    assert not await finish_job(harness.db, dead, Cancelled())
    assert not await finish_job(harness.db, dead, Released())
    with pytest.raises(ClaimLost):
        await start_job(harness.db, dead, BASE)
    with pytest.raises(ClaimLost):
        await append_chunk(harness.db, dead, "from the grave")
    assert (
        await renew(harness.db, WorkerInfo("wrk_dead", "host", 1, AGENTS), [dead.claim], 10)
    ).renewed == frozenset()

    assert await harness.events(caller, job_id) == before
    assert await finish_job(harness.db, alive, DONE)


async def test_a_worker_whose_claim_expired_is_refused_before_the_next_claim(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    dead = await harness.claim()
    await start_job(harness.db, dead, BASE)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert not await finish_job(harness.db, dead, DONE)


async def test_a_job_of_a_lost_worker_runs_again_at_most_twice(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    for _ in range(3):
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        await harness.expire_leases()
        await rescue_lost_jobs(harness.db, harness.context.settings)
    job = await harness.view(caller, job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.code == "worker_lost"
    assert job.attempt == 3
    assert await harness.events(caller, job_id) == [
        "job.queued",
        "job.started",
        "job.queued",
        "job.started",
        "job.queued",
        "job.started",
        "job.failed",
    ]


async def test_a_job_lost_before_its_agent_starts_is_requeued_without_an_event(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await harness.claim()
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert await harness.events(caller, job_id) == ["job.queued"]
    assert not (await harness.claim()).was_started_before


async def test_a_lost_job_is_rescued_although_the_clock_was_set_back(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    lost = await harness.claim()
    await harness.db.transact(_lengthen_leases)
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == []
    row = await harness.db.fetch_one("SELECT lease_expires_at FROM job_queue")
    assert row is not None
    lease_ms = harness.context.settings.lease_seconds * 1_000
    assert row["lease_expires_at"] < now_ms() + lease_ms + 1_000
    await harness.expire_leases()
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == [lost.id]


async def _lengthen_leases(tx: Transaction) -> None:
    """As if the clock had been an hour ahead when they were set."""
    await tx.execute("UPDATE job_queue SET lease_expires_at = lease_expires_at + 3600000")


async def test_a_live_lease_is_not_rescued(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    claimed = await harness.claim()
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == []
    renewal = await renew(harness.db, CARD, [claimed.claim], 10)
    assert renewal.renewed == {claimed.claim}


async def test_a_drained_job_is_requeued_without_spending_an_attempt(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    assert await finish_job(harness.db, claimed, Released())
    job = await harness.view(caller, job_id)
    assert (job.status, job.attempt) == ("queued", 0)
    assert await harness.events(caller, job_id) == ["job.queued", "job.started", "job.queued"]
    repeated = await harness.claim()
    await start_job(harness.db, repeated, BASE)
    assert (await harness.view(caller, job_id)).attempt == 1


async def test_a_full_disk_requeues_a_job_until_its_agent_was_started_three_times(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    full = DiskFull(Failed("agent_failed", "No space left on device"), max_attempts=3)
    # Before the agent starts, it costs nothing.
    for _ in range(4):
        assert await finish_job(harness.db, await harness.claim(), full)
    assert await harness.events(caller, job_id) == ["job.queued"]
    for status in ("queued", "queued", "failed"):
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, full)
        assert (await harness.view(caller, job_id)).status == status
    error = (await harness.view(caller, job_id)).error
    assert error is not None
    assert (error.code, error.message) == ("agent_failed", "No space left on device")


async def test_a_lost_sandbox_requeues_a_job_without_an_attempt_up_to_a_limit(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    lost = LostSandbox(Failed("sandbox_error", "The sandbox was lost: the node failed."))
    # One whose agent had not started yet counts too.
    assert await finish_job(harness.db, await harness.claim(), lost)
    assert await harness.events(caller, job_id) == ["job.queued"]
    for _ in range(MAX_LOST_SANDBOXES - 2):
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, lost)
        job = await harness.view(caller, job_id)
        assert (job.status, job.attempt) == ("queued", 0)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    assert await finish_job(harness.db, claimed, lost)
    error = (await harness.view(caller, job_id)).error
    assert error is not None
    assert error.code == "sandbox_error"
    assert error.message.startswith("The sandbox was lost: the node failed. This was sandbox 20")


async def test_a_worker_on_a_starved_machine_claims_with_a_longer_lease(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    claimer = Claimer(harness.context, "wrk_a")
    claimer.extra_lease_seconds = 30.0
    (job,) = await claimer.claim(AGENTS, 1)
    query = "SELECT lease_expires_at FROM job_queue WHERE job_id = :id"
    row = await harness.db.fetch_one(query, id=job.id)
    assert row is not None
    lease_ms = (harness.context.settings.lease_seconds + 30) * 1_000
    assert row["lease_expires_at"] - job.claimed_at == lease_ms
    # It is not one from before the clock was set back.
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == []
    assert await harness.db.fetch_one(query, id=job.id) == row


async def test_a_job_for_which_machines_are_exhausted_is_requeued_for_an_hour(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    exhausted = LostSandbox(Failed("sandbox_error", "No processes."), is_host_exhausted=True)
    for _ in range(MAX_LOST_SANDBOXES + 1):
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, exhausted)
        job = await harness.view(caller, job_id)
        assert (job.status, job.attempt) == ("queued", 0)
    claimed = await harness.claim()
    claimed = msgspec.structs.replace(claimed, created_at=claimed.created_at - MIN_EXHAUSTED_MS)
    assert await finish_job(harness.db, claimed, exhausted)
    assert (await harness.view(caller, job_id)).status == "failed"


async def test_a_lost_sandbox_is_neither_a_lost_worker_nor_one_that_was_cut_off(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    lost = LostSandbox(Failed("sandbox_error", "The sandbox was lost."))
    for _ in range(3):
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, lost)
    rows = await harness.db.fetch_all("SELECT worker_id, kind FROM lost_claims")
    assert {(row["worker_id"], row["kind"]) for row in rows} == {("wrk_a", "sandbox")}
    await harness.db.transact(_two_days_earlier)
    for _ in range(2):
        await start_job(harness.db, await harness.claim(), BASE)
        await harness.expire_leases()
        await rescue_lost_jobs(harness.db, harness.context.settings)
        assert (await harness.view(caller, job_id)).status == "queued"


async def _two_days_earlier(tx: Transaction) -> None:
    await tx.execute("UPDATE lost_claims SET lost_at = lost_at - :ms", ms=2 * DAY_MS)


async def test_a_job_that_was_started_before_is_marked_so_after_a_drain(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    first = await harness.claim()
    assert not first.was_started_before
    await start_job(harness.db, first, BASE)
    await finish_job(harness.db, first, Released())
    assert (await harness.claim()).was_started_before


@pytest.mark.parametrize("outcome", [Released(), Failed("forge_error", "away")])
async def test_a_requested_cancel_overrides_any_other_end_of_the_run(
    harness: JobHarness, outcome: Released | Failed
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert await finish_job(harness.db, claimed, outcome)
    assert (await harness.view(caller, job_id)).status == "cancelled"


async def test_an_open_pull_request_overrides_a_late_cancel(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert await finish_job(harness.db, claimed, DONE)
    assert (await harness.view(caller, job_id)).status == "completed"


async def test_a_credential_opens_its_branch_while_the_claim_is_held(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()

    async def opens(branch: str, credential: str) -> bool:
        return await harness.db.transact(may_write_branch, claimed.repo_id, branch, credential)

    assert await opens(claimed.branch, claimed.credential)
    assert not await opens("main", claimed.credential)
    assert not await opens(claimed.branch, "ajt_other")
    await start_job(harness.db, claimed, BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert not await opens(claimed.branch, claimed.credential)
    await finish_job(harness.db, claimed, Cancelled())
    assert not await opens(claimed.branch, claimed.credential)


async def test_disconnecting_a_repository_fails_its_queued_jobs(harness: JobHarness) -> None:
    caller = await harness.organization()
    waiting = await harness.job(caller)
    prepared = await harness.claim()
    assert prepared.id == waiting
    await disconnect_repository(harness.db, "acme", "acme/shop")
    job = await harness.view(caller, waiting)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.code == "repo_unavailable"
    with pytest.raises(ClaimLost):
        await start_job(harness.db, prepared, BASE)


async def test_a_queued_job_is_cancelled_at_once(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, job_id)
    job = await harness.view(caller, job_id)
    assert job.status == "cancelled"
    assert job.error is not None
    assert job.error.code == "cancelled"
    assert await harness.nothing_to_claim()
    assert await harness.events(caller, job_id) == ["job.queued", "job.failed"]


async def test_a_job_cancelled_during_preparation_never_starts(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await cancel_job(harness.db, caller.organization_id, job_id)
    with pytest.raises(ClaimLost):
        await start_job(harness.db, claimed, BASE)


async def test_cancelling_a_running_job_notifies_its_worker(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    assert (await harness.view(caller, job_id)).status == "running"
    assert await cancel_requests(harness.db, "wrk_a") == {claimed.claim}
    assert (await renew(harness.db, CARD, [claimed.claim], 10)).cancel_requested == {claimed.claim}
    assert await finish_job(harness.db, claimed, Cancelled())
    assert (await harness.view(caller, job_id)).status == "cancelled"


async def test_a_cancel_survives_the_loss_of_the_worker(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await start_job(harness.db, await harness.claim(), BASE)
    await cancel_job(harness.db, caller.organization_id, job_id)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert (await harness.view(caller, job_id)).status == "cancelled"


async def test_a_finished_job_cannot_be_cancelled(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, job_id)
    with pytest.raises(Problem) as problem:
        await cancel_job(harness.db, caller.organization_id, job_id)
    assert problem.value.code == "job_finished"


async def test_another_organizations_job_is_reported_as_not_found(harness: JobHarness) -> None:
    job_id = await harness.job(await harness.organization())
    evil = await harness.organization("evil")
    for attempt in (
        get_job(harness.context, evil.organization_id, job_id),
        cancel_job(harness.db, evil.organization_id, job_id),
    ):
        with pytest.raises(Problem) as problem:
            await attempt
        assert problem.value.code == "job_not_found"


async def test_a_waiter_returns_on_a_status_change_only(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    waits = asyncio.Event()
    original = Signal.wait

    async def noted_wait(signal: Signal, timeout_seconds: float | None = None) -> bool:
        waits.set()
        return await original(signal, timeout_seconds)

    monkeypatch.setattr(Signal, "wait", noted_wait)
    waiting = asyncio.create_task(
        wait_for_change(harness.context, caller.organization_id, job_id, 30)
    )
    await waits.wait()
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    assert (await waiting).status == "running"
    assert (
        await wait_for_change(harness.context, caller.organization_id, job_id, 0.05)
    ).status == ("running")


async def test_waiting_on_a_finished_job_returns_at_once(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await cancel_job(harness.db, caller.organization_id, job_id)
    job = await wait_for_change(harness.context, caller.organization_id, job_id, 60)
    assert job.status == "cancelled"


async def test_log_chunks_continue_after_those_of_an_earlier_attempt(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    first = await harness.claim()
    await append_chunk(harness.db, first, "one\n")
    await finish_job(harness.db, first, Released())
    await append_chunk(harness.db, await harness.claim(), "two\n")
    chunks = await read_chunks(harness.db, job_id, 0, 10)
    assert [(chunk.sequence, chunk.text) for chunk in chunks] == [(1, "one\n"), (2, "two\n")]
    assert [chunk.text for chunk in await read_chunks(harness.db, job_id, 1, 10)] == ["two\n"]


async def test_a_worker_that_signs_off_no_longer_counts(harness: JobHarness) -> None:
    caller = await harness.organization()
    await renew(harness.db, CARD, [], 10)
    job_id = await harness.job(caller)
    assert (await harness.view(caller, job_id)).queue_reason is None
    await sign_off(harness.db, "wrk_a")
    harness.context.fleet.forget()
    assert (await harness.view(caller, job_id)).queue_reason == "no_worker"


async def test_a_deleted_worker_returns_with_its_next_heartbeat(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await renew(harness.db, CARD, [], 10)
    await delete_silent_workers(harness.db, -1)
    assert (await harness.view(caller, job_id)).queue_reason == "no_worker"
    await renew(harness.db, CARD, [], 10)
    harness.context.fleet.forget()
    assert (await harness.view(caller, job_id)).queue_reason is None


async def test_a_claim_knows_whether_another_one_could_find_more(harness: JobHarness) -> None:
    callers = [await harness.organization(name) for name in ("acme", "globex")]
    for caller in callers:
        for _ in range(2):
            await harness.job(caller)
    claimer = Claimer(harness.context, "wrk_a")

    assert len(await claimer.claim(AGENTS, 3)) == 3
    assert claimer.may_find_more
    assert len(await claimer.claim(AGENTS, 3)) == 1
    assert not claimer.may_find_more


async def test_a_claim_takes_another_organization_while_the_first_one_is_locked(
    postgres_url: str,
) -> None:
    operator = await asyncpg.connect(postgres_url)
    db = await open_database(postgres_url, migrate=False)
    try:
        harness = job_harness(db, Settings(data_dir="/nonexistent"))
        callers = [await harness.organization(name) for name in ("acme", "globex", "initech")]
        for caller in callers:
            await harness.job(caller)
        first, *others = sorted(caller.organization_id for caller in callers)
        async with operator.transaction():
            await operator.execute(
                "SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE", first
            )
            claimer = Claimer(harness.context, "wrk_a")
            for organization_id in others:
                (job,) = await claimer.claim(AGENTS, 1)
                assert job.organization_id == organization_id
        (job,) = await claimer.claim(AGENTS, 1)
        assert job.organization_id == first
    finally:
        await db.close()
        await operator.close()


async def test_a_look_at_the_queue_is_planned_once(postgres_url: str) -> None:
    """Planning it for every call would take PostgreSQL longer than running it."""
    db = await open_database(postgres_url, migrate=False, pool_size=1)
    try:
        harness = job_harness(db, Settings(data_dir="/nonexistent"))
        for number in range(20):
            assert await claim_job(harness.context, f"wrk_{number}", AGENTS) is None
        row = await db.fetch_one(
            "SELECT custom_plans, generic_plans FROM pg_prepared_statements"
            " WHERE statement LIKE '%WITH RECURSIVE waiting(%'"
            " AND statement NOT LIKE '%pg_prepared_statements%'"
        )
        assert row is not None
        # PostgreSQL tries five plans for the parameters before it keeps one for all.
        assert (row["custom_plans"], row["generic_plans"]) == (5, 15)
    finally:
        await db.close()


async def test_the_statements_that_create_and_read_jobs_are_planned_once(postgres_url: str) -> None:
    db = await open_database(postgres_url, migrate=False, pool_size=1)
    try:
        harness = job_harness(db, Settings(data_dir="/nonexistent"))
        caller = await harness.organization()
        for _ in range(20):
            await harness.view(caller, await harness.job(caller))
        rows = await db.fetch_all(
            "SELECT statement FROM pg_prepared_statements WHERE custom_plans > 5"
        )
        assert [row["statement"] for row in rows] == []
    finally:
        await db.close()


async def test_a_worker_plans_each_statement_once(postgres_url: str) -> None:
    db = await open_database(postgres_url, migrate=False, pool_size=1, generic_plans=True)
    try:
        harness = job_harness(db, Settings(data_dir="/nonexistent"))
        caller = await harness.organization()
        for _ in range(10):
            await harness.job(caller)
            job = await claim_job(harness.context, "wrk_a", AGENTS)
            assert job is not None
            await start_job(db, job, BASE)
            assert await finish_job(db, job, DONE)
        rows = await db.fetch_all(
            "SELECT statement FROM pg_prepared_statements WHERE custom_plans > 0"
        )
        assert [row["statement"] for row in rows] == []
    finally:
        await db.close()
