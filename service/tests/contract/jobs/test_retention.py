"""What is pruned and what is kept, on both databases."""

from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.jobs.logs.chunks import append_chunk, read_chunks
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.retention import prune
from agentjobs.jobs.results.run_records import usage_writer
from agentjobs.jobs.steps.rows import read_steps, store_steps
from agentjobs.jobs.views.queries import list_jobs
from agentjobs_runtime.agents.steps import StoredStep
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.protocol.outcomes import Failed
from tests.support.jobs import JobHarness
from tests.support.pruning import prune_and_count


async def finished_job(harness: JobHarness) -> str:
    caller = harness.callers.get("acme") or await harness.organization()
    job_id = await harness.job(caller, labels={"team": "pay"})
    await harness.claim()
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    claimed = await harness.claim()
    for _ in range(3):
        await append_chunk(harness.db, claimed, "text\n")
    step = StoredStep(sequence=1, started_at=1, kind="read", title="a.py", state="succeeded")
    await store_steps(harness.db, claimed, [step], after=0)
    account = Account(job_id=job_id, organization_id=caller.organization_id)
    await Ledger(harness.db, account, usage_writer(job_id)).reserve(5)
    await finish_job(harness.db, claimed, Failed("no_changes", ""))
    return job_id


async def test_recent_data_is_not_pruned(harness: JobHarness) -> None:
    job_id = await finished_job(harness)
    await harness.same_request(harness.callers["acme"], "k")
    pruned = await prune_and_count(harness.db, now_ms(), log_days=30, job_days=365)
    assert (pruned["job_logs"], pruned["jobs"], pruned["idempotency_keys"]) == (0, 0, 0)
    assert len(await read_chunks(harness.db, job_id, 0, 10)) == 3
    assert len(await read_steps(harness.db, job_id)) == 1


async def test_logs_are_pruned_after_30_days_and_their_jobs_stay(harness: JobHarness) -> None:
    job_id = await finished_job(harness)
    pruned = await prune_and_count(harness.db, now_ms() + 31 * DAY_MS, log_days=30, job_days=365)
    assert (pruned["job_logs"], pruned["jobs"]) == (3, 0)
    assert await read_chunks(harness.db, job_id, 0, 10) == []
    assert await read_steps(harness.db, job_id) == []
    left = await list_jobs(harness.context, harness.callers["acme"].organization_id)
    assert len(left.jobs) == 1


async def test_finished_jobs_are_pruned_after_a_year_with_all_their_data(
    harness: JobHarness,
) -> None:
    await finished_job(harness)
    waiting = await harness.job(harness.callers["acme"])
    pruned = await prune_and_count(harness.db, now_ms() + 366 * DAY_MS, log_days=0, job_days=365)
    assert (pruned["job_logs"], pruned["jobs"]) == (3, 1)
    left = await list_jobs(harness.context, harness.callers["acme"].organization_id)
    assert [job.job_id for job in left.jobs] == [waiting]
    tables = (
        ("job_logs", 0),
        ("job_steps", 0),
        ("events", 1),
        ("job_spending", 0),
        ("lost_claims", 0),
        ("job_labels", 0),
    )
    for table, expected in tables:
        row = await harness.db.fetch_one(f"SELECT COUNT(*) AS n FROM {table}")
        assert row is not None
        assert row["n"] == expected


async def test_the_log_of_a_job_still_running_is_kept_whatever_its_age(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller, labels={"team": "pay"})
    await append_chunk(harness.db, await harness.claim(), "text\n")
    await prune(harness.db, now_ms() + 400 * DAY_MS, log_days=30, job_days=365)
    assert len(await read_chunks(harness.db, job_id, 0, 10)) == 1


async def test_idempotency_keys_are_kept_for_at_least_a_day(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.same_request(caller, "k")
    await prune(harness.db, now_ms() + DAY_MS, log_days=30, job_days=365)
    assert (await harness.same_request(caller, "k")).replayed
    pruned = await prune_and_count(harness.db, now_ms() + 3 * DAY_MS, log_days=30, job_days=365)
    assert pruned["idempotency_keys"] == 1
