"""Claims, fences, leases, rescue and cancel, on both stores."""

import asyncio

import pytest

from agentjobs.jobs.cancel import cancel_job
from agentjobs.jobs.context import JobsContext
from agentjobs.jobs.disconnect import disconnect_repository
from agentjobs.jobs.logs.chunks import append_chunk, read_chunks
from agentjobs.jobs.outcomes import Cancelled, Completed, Failed, Released
from agentjobs.jobs.queue.claim import claim_job
from agentjobs.jobs.queue.credentials import may_write_branch
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.leases import (
    WorkerInfo,
    cancel_requests,
    delete_silent_workers,
    renew,
    sign_off,
)
from agentjobs.jobs.queue.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.queries import get_job
from agentjobs.jobs.views.wait import wait_for_change
from agentjobs.problems import Problem
from agentjobs.store.changes import Signal
from agentjobs.store.database import Database
from agentjobs.store.leases import ClaimLost
from agentjobs.store.opening import open_database
from tests.support.jobs import AGENTS, World

BASE = "1" * 40
CARD = WorkerInfo("wrk_a", "host", 2, AGENTS)
DONE = Completed("http://x/1", 1, "2" * 40, draft=False)


async def test_a_claim_leaves_the_job_queued_until_its_agent_begins(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    assert claimed.id == job_id
    assert (await world.view(caller, job_id)).status == "queued"
    await start_job(world.db, claimed, BASE)
    job = await world.view(caller, job_id)
    assert (job.status, job.attempt) == ("running", 1)
    assert job.started_at is not None


async def test_a_completed_job_shows_its_pull_request_and_tells_three_events(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    assert await finish_job(world.db, claimed, DONE)
    job = await world.view(caller, job_id)
    assert (job.status, job.pr_url, job.pr_number) == ("completed", "http://x/1", 1)
    assert job.completed_at is not None
    assert await world.events(caller, job_id) == [
        "job.queued",
        "job.started",
        "job.completed",
        "pr.review_requested",
    ]


async def test_a_draft_asks_for_no_review_yet(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    await finish_job(world.db, claimed, Completed("http://x/1", 1, "2" * 40, draft=True))
    assert (await world.events(caller, job_id))[-1] == "job.completed"


async def test_a_job_may_fail_before_its_agent_began(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    assert await finish_job(world.db, await world.claim(), Failed("repo_unavailable", "gone"))
    job = await world.view(caller, job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert (job.error.code, job.error.message, job.error.retryable) == (
        "repo_unavailable",
        "gone",
        True,
    )
    assert await world.events(caller, job_id) == ["job.queued", "job.failed"]


async def test_only_a_running_job_completes(world: World) -> None:
    await world.job(await world.organization())
    assert not await finish_job(world.db, await world.claim(), DONE)


async def test_jobs_of_one_organization_start_in_order(world: World) -> None:
    caller = await world.organization()
    made = [await world.job(caller) for _ in range(4)]
    assert [(await world.claim()).id for _ in range(4)] == made


async def test_a_long_queue_of_one_organization_does_not_starve_another(world: World) -> None:
    busy, small = await world.organization("busy"), await world.organization("small")
    for _ in range(5):
        await world.job(busy)
    late = await world.job(small)
    first, second = await world.claim(), await world.claim()
    assert first.organization == "busy"
    assert second.id == late


async def test_with_one_slot_organizations_take_turns(world: World) -> None:
    busy, small = await world.organization("busy"), await world.organization("small")
    for _ in range(3):
        await world.job(busy)
    for _ in range(2):
        await world.job(small)
    order = []
    for _ in range(5):
        claimed = await world.claim()
        order.append(claimed.organization)
        await finish_job(world.db, claimed, Failed("no_changes", ""))
    assert order == ["busy", "small", "busy", "small", "busy"]


async def test_the_plans_concurrency_holds_jobs_back_and_says_why(world: World) -> None:
    caller = await world.organization(plan="free")
    await world.job(caller)
    waiting = await world.job(caller)
    held = await world.claim()
    assert await world.nothing_to_claim()
    assert (await world.view(caller, waiting)).queue_reason == "plan_limit"
    await start_job(world.db, held, BASE)
    await finish_job(world.db, held, DONE)
    assert (await world.claim()).id == waiting


async def test_many_workers_at_once_never_pass_the_plan_or_share_a_job(world: World) -> None:
    caller = await world.organization(plan="pro")
    for _ in range(12):
        await world.job(caller)
    claims = await asyncio.gather(
        *(claim_job(world.context, f"wrk_{n}", AGENTS) for n in range(12))
    )
    taken = [job.id for job in claims if job is not None]
    assert len(taken) == len(set(taken)) == 5


async def test_claims_and_ends_at_once_never_pass_the_plan(world: World, database_url: str) -> None:
    caller = await world.organization(plan="free")
    for _ in range(20):
        await world.job(caller)
    most = 0

    async def work(db: Database, worker_id: str) -> None:
        nonlocal most
        context = JobsContext(db, world.context.settings, world.context.catalog)
        for _ in range(12):
            claimed = await claim_job(context, worker_id, AGENTS)
            row = await world.db.fetch_one(
                "SELECT COUNT(*) AS n FROM jobs WHERE lease_owner IS NOT NULL"
            )
            assert row is not None
            most = max(most, row["n"])
            if claimed is not None:
                await finish_job(db, claimed, Failed("no_changes", ""))

    elsewhere = await open_database(database_url, migrate=False)
    try:
        workers = [(db, f"wrk_{n}") for n in range(3) for db in (world.db, elsewhere)]
        await asyncio.gather(*(work(db, worker_id) for db, worker_id in workers))
    finally:
        await elsewhere.close()
    assert most == 1


async def test_a_job_nobody_can_run_says_so(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    assert (await world.view(caller, job_id)).queue_reason == "no_worker"
    assert await claim_job(world.context, "wrk_a", ["something-else"]) is None


async def test_a_worker_that_lost_its_claim_changes_nothing(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    dead = await world.claim("wrk_dead")
    await start_job(world.db, dead, BASE)
    await world.expire_leases()
    assert await rescue_lost_jobs(world.db, 2) == [job_id]
    alive = await world.claim("wrk_alive")
    await start_job(world.db, alive, BASE)
    before = await world.events(caller, job_id)

    assert not await finish_job(world.db, dead, DONE)
    assert not await finish_job(world.db, dead, Failed("agent_failed", "x"))
    assert not await finish_job(world.db, dead, Cancelled())
    assert not await finish_job(world.db, dead, Released())
    with pytest.raises(ClaimLost):
        await start_job(world.db, dead, BASE)
    with pytest.raises(ClaimLost):
        await append_chunk(world.db, dead, "from the grave")
    assert (
        await renew(world.db, WorkerInfo("wrk_dead", "host", 1, AGENTS), [dead], 10)
    ).renewed == frozenset()

    assert await world.events(caller, job_id) == before
    assert await finish_job(world.db, alive, DONE)


async def test_a_zombie_is_refused_even_before_anyone_took_over(world: World) -> None:
    await world.job(await world.organization())
    dead = await world.claim()
    await start_job(world.db, dead, BASE)
    await world.expire_leases()
    await rescue_lost_jobs(world.db, 2)
    assert not await finish_job(world.db, dead, DONE)


async def test_a_lost_workers_job_runs_again_at_most_twice_more(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    for _ in range(3):
        claimed = await world.claim()
        await start_job(world.db, claimed, BASE)
        await world.expire_leases()
        await rescue_lost_jobs(world.db, 2)
    job = await world.view(caller, job_id)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.code == "worker_lost"
    assert job.attempt == 3
    assert await world.events(caller, job_id) == [
        "job.queued",
        "job.started",
        "job.queued",
        "job.started",
        "job.queued",
        "job.started",
        "job.failed",
    ]


async def test_a_job_lost_before_its_agent_began_is_silently_queued_again(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await world.claim()
    await world.expire_leases()
    await rescue_lost_jobs(world.db, 2)
    assert await world.events(caller, job_id) == ["job.queued"]
    assert not (await world.claim()).was_started_before


async def test_a_live_lease_is_not_rescued(world: World) -> None:
    await world.job(await world.organization())
    claimed = await world.claim()
    assert await rescue_lost_jobs(world.db, 2) == []
    renewal = await renew(world.db, CARD, [claimed], 10)
    assert renewal.renewed == {claimed.claim}


async def test_a_drained_job_is_queued_again_without_losing_an_attempt(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    assert await finish_job(world.db, claimed, Released())
    job = await world.view(caller, job_id)
    assert (job.status, job.attempt) == ("queued", 0)
    assert await world.events(caller, job_id) == ["job.queued", "job.started", "job.queued"]
    again = await world.claim()
    await start_job(world.db, again, BASE)
    assert (await world.view(caller, job_id)).attempt == 1


async def test_a_job_that_was_started_before_knows_it_even_after_a_drain(world: World) -> None:
    await world.job(await world.organization())
    first = await world.claim()
    assert not first.was_started_before
    await start_job(world.db, first, BASE)
    await finish_job(world.db, first, Released())
    assert (await world.claim()).was_started_before


@pytest.mark.parametrize("outcome", [Released(), Failed("forge_error", "away")])
async def test_a_cancel_wish_outlasts_whatever_else_ended_the_run(
    world: World, outcome: Released | Failed
) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    await cancel_job(world.context, caller.organization_id, job_id)
    assert await finish_job(world.db, claimed, outcome)
    assert (await world.view(caller, job_id)).status == "cancelled"


async def test_a_pull_request_that_is_open_wins_over_a_late_cancel(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    await cancel_job(world.context, caller.organization_id, job_id)
    assert await finish_job(world.db, claimed, DONE)
    assert (await world.view(caller, job_id)).status == "completed"


async def test_a_credential_opens_its_branch_while_the_claim_lives(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()

    async def opens(branch: str, credential: str) -> bool:
        return await world.db.transact(may_write_branch, claimed.repo_id, branch, credential)

    assert await opens(claimed.branch, claimed.credential)
    assert not await opens("main", claimed.credential)
    assert not await opens(claimed.branch, "ajt_other")
    await start_job(world.db, claimed, BASE)
    await cancel_job(world.context, caller.organization_id, job_id)
    assert not await opens(claimed.branch, claimed.credential)
    await finish_job(world.db, claimed, Cancelled())
    assert not await opens(claimed.branch, claimed.credential)


async def test_a_disconnected_repository_fails_what_waits_for_it(world: World) -> None:
    caller = await world.organization()
    waiting = await world.job(caller)
    prepared = await world.claim()
    assert prepared.id == waiting
    await disconnect_repository(world.db, "acme", "acme/shop")
    job = await world.view(caller, waiting)
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.code == "repo_unavailable"
    with pytest.raises(ClaimLost):
        await start_job(world.db, prepared, BASE)


async def test_a_queued_job_is_cancelled_at_once(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    job = await cancel_job(world.context, caller.organization_id, job_id)
    assert job.status == "cancelled"
    assert job.error is not None
    assert job.error.code == "cancelled"
    assert await world.nothing_to_claim()
    assert await world.events(caller, job_id) == ["job.queued", "job.failed"]


async def test_a_job_cancelled_while_it_is_prepared_never_starts(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await cancel_job(world.context, caller.organization_id, job_id)
    with pytest.raises(ClaimLost):
        await start_job(world.db, claimed, BASE)


async def test_cancelling_a_running_job_is_a_wish_its_worker_hears(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    assert (await cancel_job(world.context, caller.organization_id, job_id)).status == "running"
    assert await cancel_requests(world.db, "wrk_a") == {claimed.claim}
    assert (await renew(world.db, CARD, [claimed], 10)).cancel_requested == {claimed.claim}
    assert await finish_job(world.db, claimed, Cancelled())
    assert (await world.view(caller, job_id)).status == "cancelled"


async def test_a_cancel_survives_the_loss_of_the_worker(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await start_job(world.db, await world.claim(), BASE)
    await cancel_job(world.context, caller.organization_id, job_id)
    await world.expire_leases()
    await rescue_lost_jobs(world.db, 2)
    assert (await world.view(caller, job_id)).status == "cancelled"


async def test_a_finished_job_cannot_be_cancelled(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await cancel_job(world.context, caller.organization_id, job_id)
    with pytest.raises(Problem) as problem:
        await cancel_job(world.context, caller.organization_id, job_id)
    assert problem.value.code == "job_finished"


async def test_another_organizations_job_is_as_unknown_as_none(world: World) -> None:
    job_id = await world.job(await world.organization())
    evil = await world.organization("evil")
    for attempt in (get_job, cancel_job):
        with pytest.raises(Problem) as problem:
            await attempt(world.context, evil.organization_id, job_id)
        assert problem.value.code == "job_not_found"


async def test_a_waiter_hears_of_a_change_and_of_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    waits = asyncio.Event()
    original = Signal.wait

    async def noted_wait(signal: Signal, timeout_seconds: float | None = None) -> bool:
        waits.set()
        return await original(signal, timeout_seconds)

    monkeypatch.setattr(Signal, "wait", noted_wait)
    waiting = asyncio.create_task(
        wait_for_change(world.context, caller.organization_id, job_id, 30)
    )
    await waits.wait()
    claimed = await world.claim()
    await start_job(world.db, claimed, BASE)
    assert (await waiting).status == "running"
    assert (await wait_for_change(world.context, caller.organization_id, job_id, 0.05)).status == (
        "running"
    )


async def test_waiting_on_a_finished_job_answers_at_once(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await cancel_job(world.context, caller.organization_id, job_id)
    job = await wait_for_change(world.context, caller.organization_id, job_id, 60)
    assert job.status == "cancelled"


async def test_log_chunks_go_on_where_an_earlier_attempt_stopped(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    first = await world.claim()
    await append_chunk(world.db, first, "one\n")
    await finish_job(world.db, first, Released())
    await append_chunk(world.db, await world.claim(), "two\n")
    chunks = await read_chunks(world.db, job_id, 0, 10)
    assert [(chunk.sequence, chunk.text) for chunk in chunks] == [(1, "one\n"), (2, "two\n")]
    assert [chunk.text for chunk in await read_chunks(world.db, job_id, 1, 10)] == ["two\n"]


async def test_a_worker_that_signs_off_no_longer_counts(world: World) -> None:
    caller = await world.organization()
    await renew(world.db, CARD, [], 10)
    job_id = await world.job(caller)
    assert (await world.view(caller, job_id)).queue_reason is None
    await sign_off(world.db, "wrk_a")
    world.context.fleet.forget()
    assert (await world.view(caller, job_id)).queue_reason == "no_worker"


async def test_a_worker_taken_for_dead_is_back_with_its_next_beat(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await renew(world.db, CARD, [], 10)
    await delete_silent_workers(world.db, -1)
    assert (await world.view(caller, job_id)).queue_reason == "no_worker"
    await renew(world.db, CARD, [], 10)
    world.context.fleet.forget()
    assert (await world.view(caller, job_id)).queue_reason is None
