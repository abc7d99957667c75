"""What is let go of, and what stays, on both stores."""

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.jobs.logs.chunks import append_chunk, read_chunks
from agentjobs.jobs.outcomes import Failed
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.retention import prune
from agentjobs.jobs.run.agent_network import usage_writer
from agentjobs.jobs.views.queries import list_jobs
from tests.support.jobs import World


async def finished_job(world: World) -> str:
    caller = world.callers.get("acme") or await world.organization()
    job_id = await world.job(caller)
    claimed = await world.claim()
    for _ in range(3):
        await append_chunk(world.db, claimed, "text\n")
    account = Account(job_id=job_id, organization_id=caller.organization_id)
    await Ledger(world.db, account, usage_writer(job_id)).reserve(5)
    await finish_job(world.db, claimed, Failed("no_changes", ""))
    return job_id


async def test_nothing_young_is_pruned(world: World) -> None:
    job_id = await finished_job(world)
    await world.same_request(world.callers["acme"], "k")
    pruned = await prune(world.db, log_days=30, job_days=365)
    assert (pruned.log_chunks, pruned.jobs, pruned.idempotency_keys) == (0, 0, 0)
    assert len(await read_chunks(world.db, job_id, 0, 10)) == 3


async def test_logs_go_after_30_days_and_their_jobs_stay(world: World) -> None:
    job_id = await finished_job(world)
    pruned = await prune(world.db, log_days=30, job_days=365, now=now_ms() + 31 * DAY_MS)
    assert (pruned.log_chunks, pruned.jobs) == (3, 0)
    assert await read_chunks(world.db, job_id, 0, 10) == []
    assert len(await list_jobs(world.context, world.callers["acme"].organization_id)) == 1


async def test_finished_jobs_go_after_a_year_with_everything_of_theirs(world: World) -> None:
    await finished_job(world)
    waiting = await world.job(world.callers["acme"])
    pruned = await prune(world.db, log_days=0, job_days=365, now=now_ms() + 366 * DAY_MS)
    assert (pruned.log_chunks, pruned.jobs) == (3, 1)
    left = await list_jobs(world.context, world.callers["acme"].organization_id)
    assert [job.job_id for job in left] == [waiting]
    for table, expected in (("job_logs", 0), ("events", 1), ("job_spending", 0)):
        row = await world.db.fetch_one(f"SELECT COUNT(*) AS n FROM {table}")
        assert row is not None
        assert row["n"] == expected


async def test_the_log_of_a_job_still_running_is_kept_whatever_its_age(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await append_chunk(world.db, await world.claim(), "text\n")
    await prune(world.db, log_days=30, job_days=365, now=now_ms() + 400 * DAY_MS)
    assert len(await read_chunks(world.db, job_id, 0, 10)) == 1


async def test_idempotency_answers_are_kept_for_a_day_at_least(world: World) -> None:
    caller = await world.organization()
    await world.same_request(caller, "k")
    await prune(world.db, log_days=30, job_days=365, now=now_ms() + DAY_MS)
    assert (await world.same_request(caller, "k")).replayed
    pruned = await prune(world.db, log_days=30, job_days=365, now=now_ms() + 3 * DAY_MS)
    assert pruned.idempotency_keys == 1
