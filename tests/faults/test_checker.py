"""The checker names what is wrong; otherwise a campaign would prove nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.jobs.outcomes import Completed
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.settings import Settings
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from tests.faults.checker import LEGAL_EVENTS, AcceptedJob, Checker, is_settled
from tests.faults.fleet import Fleet
from tests.faults.schedule import Schedule
from tests.support.jobs import JobHarness, job_harness
from tests.support.service import git, sample_repository


@pytest.mark.parametrize("events", ["QF", "QSF", "QSCR", "QSQSCR", "QSQCR", "QSQF"])
def test_legal_orders_of_events(events: str) -> None:
    assert LEGAL_EVENTS.fullmatch(events)


@pytest.mark.parametrize("events", ["Q", "QS", "QSFF", "QSCRCR", "QSSCR", "QSCRQ", "SCR", "QSCFR"])
def test_illegal_orders_of_events(events: str) -> None:
    assert not LEGAL_EVENTS.fullmatch(events)


@pytest.fixture
async def harness(sqlite_url: str) -> AsyncIterator[JobHarness]:
    db = await open_database(sqlite_url, migrate=False)
    yield job_harness(db, Settings(data_dir="/nowhere"))
    await db.close()


def check(tmp_path: Path, url: str, *job_ids: str) -> Checker:
    fleet = Fleet(tmp_path, "no-such-mark", url, None, None)
    bare = fleet.repositories / "shop.git"
    git(sample_repository(tmp_path / "source"), "clone", "-q", "--bare", ".", str(bare))
    accepted = [AcceptedJob(job_id, "edit", is_cancelled=False) for job_id in job_ids]
    return Checker(fleet, Schedule(1, (), ()), accepted)


async def test_a_job_that_is_lost_or_did_not_end_is_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    await start_job(harness.db, await harness.claim(), "0" * 40)
    violations = await check(tmp_path, sqlite_url, job_id, "job_lost").check(sqlite_url)
    assert violations == [
        "job_lost was accepted and is lost",
        f"{job_id} is running",
        f"{job_id} is still claimed",
        f"{job_id} has the events QS",
        f"event 1 of {job_id} has 0 deliveries",
        f"event 2 of {job_id} has 0 deliveries",
    ]
    assert not await is_settled(sqlite_url)


async def test_a_completed_job_without_a_pull_request_and_a_late_start_are_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    await finish_job(harness.db, job, Completed("http://h/1", 1, "1" * 40, draft=False))
    await harness.db.transact(_keep_at, 1)
    violations = await check(tmp_path, sqlite_url, job_id).check(sqlite_url)
    assert f"{job_id} was started after its work was kept" in violations
    assert f"{job_id} is completed, its pull request: None" in violations
    assert await is_settled(sqlite_url)


async def _keep_at(tx: Transaction, at_ms: int) -> None:
    await tx.execute("UPDATE jobs SET kept_at = :at", at=at_ms)
