"""Jobs wait for a platform that does not respond, on both databases."""

import pytest

from agentjobs.clock import DAY_MS
from agentjobs.jobs.outcomes import Kept, Unreachable
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.kept_work import KeptWork
from agentjobs.jobs.queue.platform_outages import (
    LOCAL,
    Outage,
    end_outages,
    prune_outages,
    record_outage,
)
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import Row, Transaction
from tests.support.jobs import JobHarness

BASE = "1" * 40
AWAY = Outage(LOCAL, "the repository cannot be reached")


async def make_due(tx: Transaction, key: str = LOCAL) -> None:
    now = await tx.clock_ms()
    await tx.execute(
        "UPDATE platform_outages SET retry_at = :now WHERE key = :key", now=now, key=key
    )


async def outage(harness: JobHarness, key: str = LOCAL) -> Row | None:
    return await harness.db.fetch_one("SELECT * FROM platform_outages WHERE key = :key", key=key)


async def wait_ms(tx: Transaction, reported: Outage) -> int:
    await record_outage(tx, reported)
    row = await tx.fetch_one("SELECT retry_at FROM platform_outages")
    assert row is not None
    waits: int = row["retry_at"] - await tx.clock_ms()
    return waits


async def test_a_job_waits_for_its_platform_without_spending_an_attempt(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    assert not claimed.has_outage
    assert await finish_job(harness.db, claimed, Unreachable(AWAY))
    assert await harness.nothing_to_claim()
    harness.context.fleet.forget()
    job = await harness.view(caller, job_id)
    assert (job.status, job.attempt, job.queue_reason) == ("queued", 0, "platform_unreachable")
    assert await harness.events(caller, job_id) == ["job.queued"]
    await harness.db.transact(make_due)
    assert (await harness.claim()).has_outage


async def test_every_job_of_the_platform_waits_until_it_responds(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    await harness.job(await harness.organization("other"))
    claimed = await harness.claim()
    await finish_job(harness.db, claimed, Unreachable(AWAY))
    assert await harness.nothing_to_claim()
    await end_outages(harness.db, LOCAL, claimed.repo_id)
    assert {(await harness.claim()).organization for _ in range(2)} == {"acme", "other"}


async def test_one_claim_makes_the_attempt_for_all_jobs(harness: JobHarness) -> None:
    caller = await harness.organization()
    for _ in range(3):
        await harness.job(caller)
    await finish_job(harness.db, await harness.claim(), Unreachable(AWAY))
    await harness.db.transact(make_due)
    claimed = await harness.claim()
    assert await harness.nothing_to_claim()
    await finish_job(harness.db, claimed, Unreachable(AWAY))
    row = await outage(harness)
    assert row is not None
    assert row["failures"] == 2


async def test_a_repository_that_cannot_be_served_holds_no_other(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    claimed = await harness.claim()
    await finish_job(harness.db, claimed, Unreachable(Outage(claimed.repo_id, "HTTP 500")))
    other = await harness.organization("other")
    expected = await harness.job(other)
    assert (await harness.claim()).id == expected
    assert await harness.nothing_to_claim()


async def test_a_started_job_returns_to_the_queue(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await finish_job(harness.db, claimed, Unreachable(AWAY))
    assert (await harness.view(caller, job_id)).attempt == 0
    assert await harness.events(caller, job_id) == ["job.queued", "job.started", "job.queued"]


async def test_keeping_work_records_the_outage(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await finish_job(harness.db, claimed, Kept(KeptWork(BASE, "2" * 40, b""), AWAY))
    assert await harness.nothing_to_claim()


async def test_the_wait_grows_from_five_seconds_to_a_minute(harness: JobHarness) -> None:
    waits = []
    for _ in range(6):
        waits.append(await harness.db.transact(wait_ms, AWAY))
        await harness.db.transact(make_due)
    assert [round(ms / 1_000) for ms in waits] == [5, 10, 20, 40, 60, 60]


async def test_only_the_first_of_simultaneous_failures_postpones(harness: JobHarness) -> None:
    await harness.db.transact(record_outage, AWAY)
    first = await outage(harness)
    await harness.db.transact(record_outage, AWAY)
    second = await outage(harness)
    assert first is not None
    assert second is not None
    assert first["retry_at"] == second["retry_at"]


async def test_the_wait_that_a_platform_asks_for_is_respected(harness: JobHarness) -> None:
    limited = Outage(LOCAL, "rate limit", retry_after_seconds=120)
    assert round(await harness.db.transact(wait_ms, limited) / 1_000) == 120


@pytest.mark.parametrize(("days_of_job", "status"), [(2, "failed"), (0, "queued")])
async def test_a_job_fails_after_its_platform_was_away_for_a_day(
    harness: JobHarness, days_of_job: int, status: str
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await harness.db.transact(record_outage, AWAY)
    await harness.db.transact(_made_older, job_id, days_of_job * DAY_MS)
    await finish_job(harness.db, await harness.claim(), Unreachable(AWAY))
    job = await harness.view(caller, job_id)
    assert job.status == status
    if job.error is not None:
        assert job.error.code == "repo_unavailable"
        assert AWAY.message in job.error.message


async def test_an_outage_that_no_job_meets_any_more_is_forgotten(harness: JobHarness) -> None:
    await harness.db.transact(record_outage, AWAY)
    await prune_outages(harness.db)
    assert await outage(harness) is not None
    await harness.db.transact(_long_ago)
    await prune_outages(harness.db)
    assert await outage(harness) is None


async def _long_ago(tx: Transaction) -> None:
    await tx.execute("UPDATE platform_outages SET retry_at = 1")


async def _made_older(tx: Transaction, job_id: str, ms: int) -> None:
    await make_due(tx)
    await tx.execute("UPDATE platform_outages SET since = since - :ms", ms=2 * DAY_MS)
    await tx.execute(
        "UPDATE jobs SET created_at = created_at - :ms WHERE id = :id", ms=ms, id=job_id
    )
