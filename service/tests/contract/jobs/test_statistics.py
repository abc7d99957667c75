"""The figures of the overview on both databases: sums, cache and queries."""

from typing import Any

from agentjobs.jobs.views.statistics import Statistics
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.clock import DAY_MS, HOUR_MS
from agentjobs_runtime.identifiers import first_id_at
from tests.support.jobs import JobHarness

# Half an hour after noon.
NOW = 20_000 * DAY_MS + 12 * HOUR_MS + HOUR_MS // 2
MINUTE_MS = 60_000


class Reading:
    """A database that records its queries."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.hours: list[int] = []
        self.ranges: list[int] = []

    async def fetch_all(self, sql: str, /, **parameters: Any) -> list[Row]:
        if "hours" in parameters:
            self.hours.append(len(parameters["hours"]))
        if "from_ms" in parameters:
            self.ranges.append((parameters["to_ms"] - parameters["from_ms"]) // HOUR_MS)
        return await self._db.fetch_all(sql, **parameters)


async def a_job(harness: JobHarness, caller: Caller, at: int, status: str, **columns: Any) -> str:
    """Accepted at that time, started one second and finished eleven seconds later."""
    created_id = await harness.job(caller)
    job_id = first_id_at("job", at)[:-4] + created_id[-4:]
    is_over = status not in ("queued", "running")
    values = {
        "id": job_id,
        "status": status,
        "created_at": at,
        "queued_at": at,
        "started_at": at + 1_000 if status != "queued" else None,
        "completed_at": at + 11_000 if is_over else None,
        **columns,
    }

    async def update(tx: Transaction) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in values)
        await tx.execute(
            f"UPDATE jobs SET {assigned} WHERE id = :created_id", created_id=created_id, **values
        )
        await tx.execute(
            "INSERT INTO job_spending (job_id, spent_nanousd) VALUES (:job_id, 500)", job_id=job_id
        )

    await harness.db.transact(update)
    return job_id


async def a_delivery(harness: JobHarness, caller: Caller, at: int, status: str) -> None:
    async def insert(tx: Transaction) -> None:
        await tx.execute(
            "INSERT INTO deliveries (id, organization_id, endpoint_id, job_id, sequence, event_id,"
            " event, status, due_at, created_at) VALUES (:id, :organization_id, 'whk_1', 'job_1',"
            " 1, 'evt_1', 'job.queued', :status, :at, :at)",
            id=first_id_at("dlv", at),
            organization_id=caller.organization_id,
            status=status,
            at=at,
        )

    await harness.db.transact(insert)


async def test_a_day_is_shown_by_hour_with_the_day_before(harness: JobHarness) -> None:
    caller, evil = await harness.organization(), await harness.organization("evil")
    await a_job(harness, evil, NOW, "failed")
    await a_job(harness, caller, NOW, "completed")
    await a_job(harness, caller, NOW + 1, "failed")
    await a_job(harness, caller, NOW + 2, "cancelled", completed_at=NOW + DAY_MS // 24)
    await a_job(
        harness, caller, NOW - 2 * HOUR_MS, "completed", started_at=NOW - 2 * HOUR_MS + 5_000
    )
    await a_job(harness, caller, NOW - DAY_MS, "failed")
    await a_job(harness, caller, NOW - 5_000, "queued")
    await a_job(harness, caller, NOW - 4_000, "running")
    await a_delivery(harness, caller, NOW, "delivered")
    await a_delivery(harness, caller, NOW - 3 * HOUR_MS, "failed")

    overview = await Statistics(harness.db).overview(caller.organization_id, "24h", NOW)
    assert (overview.running, overview.queued, overview.oldest_wait_ms) == (1, 1, 5_000)
    assert len(overview.buckets) == 24
    last = overview.buckets[-1]
    assert (last.starts_at, last.ends_at) == (NOW - HOUR_MS // 2, NOW + HOUR_MS // 2)
    assert (last.accepted, last.completed, last.failed, last.cancelled) == (5, 1, 1, 0)
    assert (last.mean_wait_ms, last.mean_duration_ms, last.cost_nanousd) == (1_000, 10_000, 1_000)
    assert (last.deliveries_delivered, last.deliveries_failed) == (1, 0)
    assert overview.buckets[-4].deliveries_failed == 1
    assert (overview.buckets[-2].mean_wait_ms, overview.buckets[-2].success_rate) == (None, None)
    assert (overview.total.accepted, overview.total.completed, overview.total.failed) == (6, 2, 1)
    assert overview.total.success_rate == 2 / 3
    assert overview.total.mean_wait_ms == (1_000 + 1_000 + 5_000) // 3
    assert (overview.before.accepted, overview.before.failed, overview.before.success_rate) == (
        1,
        1,
        0.0,
    )


async def test_weeks_and_months_have_buckets_at_whole_hours_of_utc(harness: JobHarness) -> None:
    caller = await harness.organization()
    await a_job(harness, caller, NOW - 29 * DAY_MS, "completed")
    statistics = Statistics(harness.db)
    week = await statistics.overview(caller.organization_id, "7d", NOW)
    month = await statistics.overview(caller.organization_id, "30d", NOW)
    assert (len(week.buckets), len(month.buckets)) == (28, 30)
    assert all(bucket.starts_at % (6 * HOUR_MS) == 0 for bucket in week.buckets)
    assert all(bucket.starts_at % DAY_MS == 0 for bucket in month.buckets)
    assert week.buckets[-1].starts_at <= NOW < week.buckets[-1].ends_at
    assert [bucket.completed for bucket in month.buckets] == [1] + [0] * 29
    assert week.total.completed == 0


async def test_only_the_current_hour_is_read_again(harness: JobHarness) -> None:
    caller = await harness.organization()
    reading: Any = Reading(harness.db)
    statistics = Statistics(reading)
    await statistics.overview(caller.organization_id, "24h", NOW)
    await a_job(harness, caller, NOW, "completed")
    repeated = await statistics.overview(caller.organization_id, "24h", NOW)
    assert repeated.total.completed == 1
    # Only the current hour, and the hour before while clocks may differ.
    soon = NOW + HOUR_MS // 2 + MINUTE_MS
    await statistics.overview(caller.organization_id, "24h", soon)
    await statistics.overview(caller.organization_id, "24h", soon + 10 * MINUTE_MS)
    await statistics.overview(caller.organization_id, "24h", soon + 11 * MINUTE_MS)
    assert reading.hours == reading.ranges == [48, 1, 2, 2, 1]


async def test_an_hour_with_pending_deliveries_is_read_again(harness: JobHarness) -> None:
    caller = await harness.organization()
    await a_delivery(harness, caller, NOW - 3 * HOUR_MS, "pending")
    statistics = Statistics(harness.db)
    await statistics.overview(caller.organization_id, "24h", NOW)

    async def settle(tx: Transaction) -> None:
        await tx.execute("UPDATE deliveries SET status = 'delivered'")

    await harness.db.transact(settle)
    overview = await statistics.overview(caller.organization_id, "24h", NOW)
    assert overview.total.deliveries_delivered == 1


async def test_the_cache_is_bounded_and_drops_the_least_recently_viewed(
    harness: JobHarness,
) -> None:
    names = [(await harness.organization(name)).organization_id for name in ("a", "b", "c")]
    reading: Any = Reading(harness.db)
    statistics = Statistics(reading, max_cells=200)
    for name in (names[0], names[1], names[0], names[2]):
        await statistics.overview(name, "24h", NOW)
    await statistics.overview(names[0], "24h", NOW)
    await statistics.overview(names[1], "24h", NOW)
    assert reading.hours == [48, 48, 1, 48, 1, 48]


async def test_agents_have_a_record_of_their_finished_jobs(harness: JobHarness) -> None:
    caller = await harness.organization()
    await a_job(harness, caller, NOW, "completed")
    await a_job(harness, caller, NOW - DAY_MS, "failed")
    await a_job(harness, caller, NOW - 2 * DAY_MS, "cancelled")
    await a_job(harness, caller, NOW - DAY_MS, "completed", agent="pro-fixer")
    await a_job(harness, caller, NOW - 40 * DAY_MS, "failed")
    records = await Statistics(harness.db).agent_records(
        caller.organization_id, NOW - 30 * DAY_MS, NOW
    )
    assert set(records) == {"fixer", "pro-fixer"}
    fixer = records["fixer"]
    assert (fixer.finished, fixer.completed, fixer.mean_duration_ms) == (2, 1, 10_000)
    assert (fixer.cost_nanousd, fixer.success_rate) == (1_500, 0.5)
