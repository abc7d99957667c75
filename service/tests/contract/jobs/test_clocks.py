"""Jobs on machines whose clocks differ from that of PostgreSQL."""

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.protocol.outcomes import Failed, Released
from tests.support.clock_shift import ShiftClock
from tests.support.jobs import JobHarness

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.mark.parametrize("shift_seconds", [3_600, -3_600])
async def test_a_job_starts_and_ends_at_the_time_of_the_database(
    harness: JobHarness, shift_clock: ShiftClock, shift_seconds: int
) -> None:
    began_at = now_ms()
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    shift_clock(shift_seconds)
    await start_job(harness.db, job, "1" * 40)
    shift_clock(-shift_seconds)
    await finish_job(harness.db, job, Failed("no_changes", ""))
    shift_clock(0)

    row = await harness.db.fetch_one("SELECT * FROM jobs WHERE id = :id", id=job_id)
    assert row is not None
    # The clocks of the two processes are compared here, so they may differ by a little.
    assert began_at - SECOND_MS <= row["started_at"] <= row["completed_at"] <= now_ms() + SECOND_MS


@pytest.mark.parametrize("shift_seconds", [3_600, -3_600])
async def test_a_job_is_queued_at_the_time_of_the_database(
    harness: JobHarness, shift_clock: ShiftClock, shift_seconds: int
) -> None:
    began_at = now_ms()
    caller = await harness.organization()
    shift_clock(shift_seconds)
    created = await harness.job(caller)
    released = await harness.claim()
    await start_job(harness.db, released, "1" * 40)
    await finish_job(harness.db, released, Released())
    shift_clock(0)
    row = await harness.db.fetch_one(
        "SELECT * FROM jobs j JOIN job_queue q ON q.job_id = j.id WHERE j.id = :id", id=created
    )
    assert row is not None
    for column in ("created_at", "queued_at", "queue_order"):
        assert began_at - SECOND_MS <= row[column] <= now_ms() + SECOND_MS, column
