"""Pruning uses the clock of the database, and stops while the clock of the machine is wrong."""

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.loops.prune_loop import prune_loop
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.outcomes import Failed
from tests.support.clock_shift import ShiftClock
from tests.support.jobs import JobHarness

_DAY_SECONDS = 86_400


async def _finished_job(harness: JobHarness) -> str:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await finish_job(harness.db, await harness.claim(), Failed("no_changes", ""))
    return job_id


async def _age(harness: JobHarness, job_id: str, days: int) -> None:
    await harness.db.transact(
        lambda tx: tx.execute(
            "UPDATE jobs SET completed_at = completed_at - :age WHERE id = :id",
            age=days * DAY_MS,
            id=job_id,
        )
    )


async def _prune(harness: JobHarness) -> int:
    """Returns the number of jobs that are left."""
    await prune_loop(harness.db, harness.context.settings)._once()
    row = await harness.db.fetch_one("SELECT COUNT(*) AS jobs FROM jobs")
    assert row is not None
    return int(row["jobs"])


@pytest.mark.parametrize("shift_days", [500, -500])
async def test_a_machine_with_a_wrong_clock_prunes_nothing(
    harness: JobHarness,
    shift_clock: ShiftClock,
    caplog: pytest.LogCaptureFixture,
    shift_days: int,
) -> None:
    await _finished_job(harness)
    shift_clock(shift_days * _DAY_SECONDS)
    # On SQLite, the clock of the machine is the only one.
    is_only_clock = harness.db.engine == "sqlite"
    assert await _prune(harness) == (0 if is_only_clock and shift_days > 0 else 1)
    assert ("nothing is pruned" in caplog.text) == (not is_only_clock)


async def test_a_machine_whose_clock_is_a_few_seconds_off_prunes(
    harness: JobHarness, shift_clock: ShiftClock
) -> None:
    job_id = await _finished_job(harness)
    await _age(harness, job_id, days=366)
    shift_clock(30)
    assert await _prune(harness) == 0


async def test_a_worker_with_a_wrong_clock_finishes_jobs_at_the_time_of_the_database(
    harness: JobHarness, shift_clock: ShiftClock
) -> None:
    shift_clock(-500 * _DAY_SECONDS)
    await _finished_job(harness)
    shift_clock(0)
    is_only_clock = harness.db.engine == "sqlite"
    assert await _prune(harness) == (0 if is_only_clock else 1)
