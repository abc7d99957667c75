"""Jobs wait for a platform that does not respond, on both databases."""

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.kept_work import claim_kept_work
from agentjobs.jobs.queue.platform_outages import (
    REFUSED_RETRY_MS,
    end_outages,
    end_outages_of_connection,
    held_keys,
    prune_outages,
    record_outage,
)
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import Row, Transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.claimed_job import LOCAL
from agentjobs_runtime.protocol.outcomes import Kept, KeptWork, Outage, Unreachable
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


async def refuse(harness: JobHarness, reason: str) -> Outage:
    """The platform does not accept finished work."""
    [claimed] = await claim_kept_work(harness.db, 1, 10_000)
    refused = Outage(claimed.refusal_key, reason)
    await finish_job(harness.db, claimed, Unreachable(refused))
    return refused


async def test_refused_work_waits_longer_and_holds_no_job_without_such_work(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_ids = [await harness.job(caller) for _ in range(2)]
    for _ in job_ids:
        claimed = await harness.claim()
        await start_job(harness.db, claimed, BASE)
        await finish_job(harness.db, claimed, Kept(KeptWork(BASE, "2" * 40, b"")))
    refused = await refuse(harness, "the permission is missing")
    harness.context.fleet.forget()
    for job_id in job_ids:
        assert (await harness.view(caller, job_id)).queue_reason == "platform_refused"
    unaffected = await harness.job(caller)
    claimed = await harness.claim()
    assert (claimed.id, claimed.has_outage) == (unaffected, False)
    assert await harness.nothing_to_claim()

    # One of the jobs tries for all of them.
    for _ in range(2):
        await harness.db.transact(make_due, refused.key)
        [claimed] = await claim_kept_work(harness.db, 1, 10_000)
        assert await claim_kept_work(harness.db, 1, 10_000) == []
        await finish_job(harness.db, claimed, Unreachable(refused))
        row = await outage(harness, refused.key)
        assert row is not None
        waits = row["retry_at"] - await harness.db.clock_ms()
        assert 200_000 < waits <= REFUSED_RETRY_MS


async def test_work_that_is_refused_for_a_day_fails_with_the_reason(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, BASE)
    await finish_job(harness.db, claimed, Kept(KeptWork(BASE, "2" * 40, b"")))
    refused = await refuse(harness, "the permission is missing")

    async def age(tx: Transaction) -> None:
        await tx.execute("UPDATE jobs SET kept_at = kept_at - :day", day=DAY_MS)

    await harness.db.transact(age)
    await harness.db.transact(make_due, refused.key)
    assert await refuse(harness, "the permission is missing") == refused
    job = await harness.view(caller, job_id)
    assert job.error is not None
    assert job.error.code == "repo_unavailable"
    assert "the permission is missing" in job.error.message


async def test_a_connection_that_was_repaired_lets_its_jobs_try_at_once(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    claimed = await harness.claim()

    async def connect(tx: Transaction) -> None:
        await tx.execute("UPDATE repos SET connection_id = 'fcn_1'")

    await harness.db.transact(connect)
    for key in ("fcn_1", claimed.repo_id, claimed.refusal_key, "fcn_2"):
        await harness.db.transact(record_outage, Outage(key, "no"))
    await end_outages_of_connection(harness.db, "fcn_1")
    assert await held_keys(harness.db) == {"fcn_2"}


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
