"""Leases are renewed whatever the event loop is doing, on both stores."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue import leases
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import StoreUnavailable, Transaction
from agentjobs.store.opening import open_unchecked
from agentjobs.store.postgresql.database import PostgresqlDatabase
from agentjobs.workers import in_process
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.outcomes import Abandoned, Cancelled, Outcome
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from agentjobs_worker.loops import lease_loop
from agentjobs_worker.loops.lease_loop import LeaseLoop
from tests.support.git_server import until
from tests.support.jobs import AGENTS, JobHarness
from tests.support.manual_clock import ManualClock

BASE = "1" * 40


@dataclass
class Jobs:
    active_jobs: list[ClaimedJob]
    stopped: dict[Claim, Outcome] = field(default_factory=dict)
    ending: frozenset[Claim] = frozenset()
    renewals: int = 0

    def running_claims(self) -> frozenset[Claim]:
        return frozenset(job.claim for job in self.active_jobs) - self.ending

    def stop_claims(self, claims: frozenset[Claim], outcome: Outcome) -> None:
        self.renewals += isinstance(outcome, Cancelled)
        self.stopped |= dict.fromkeys(claims, outcome)

    def stop_all(self, outcome: Outcome) -> None:
        self.stop_claims(frozenset(job.claim for job in self.active_jobs), outcome)


@pytest.fixture
def settings(harness: JobHarness, database_url: str) -> Settings:
    return msgspec.structs.replace(
        harness.context.settings,
        database_url=database_url,
        lease_seconds=20,
        lease_renew_seconds=0.05,
    )


on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@asynccontextmanager
async def renewing(harness: JobHarness, settings: Settings, jobs: Jobs) -> AsyncIterator[LeaseLoop]:
    harness.context.settings = settings
    link = harness.link(*jobs.active_jobs)
    loop = LeaseLoop(link, settings, WorkerInfo("wrk_a", "host", 1, AGENTS), jobs)
    await loop.register()
    task = asyncio.create_task(loop.run())
    # The thread starts in the first turn of the loop.
    await asyncio.sleep(0)
    try:
        yield loop
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def wait_for_renewal_in_thread(url: str, job_id: str) -> None:
    """Return once the lease was renewed. Blocks the calling thread and its event loop."""

    async def wait() -> None:
        db = await open_unchecked(url, listen=False)
        query = "SELECT lease_expires_at FROM job_queue WHERE job_id = :id"
        before = await db.fetch_one(query, id=job_id)
        assert before is not None
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            row = await db.fetch_one(query, id=job_id)
            if row is not None and row["lease_expires_at"] > before["lease_expires_at"] + 100:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the lease was not renewed")
        await db.close()

    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, wait()).result()


async def test_leases_are_renewed_while_the_event_loop_is_blocked(
    harness: JobHarness, settings: Settings, database_url: str
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    job = await harness.claim()
    jobs = Jobs([job])
    async with renewing(harness, settings, jobs):
        wait_for_renewal_in_thread(database_url, job.id)
        wait_for_renewal_in_thread(database_url, job.id)
    assert jobs.stopped == {}
    assert await rescue_lost_jobs(harness.db, harness.context.settings) == []


async def test_lost_and_cancelled_jobs_are_stopped(harness: JobHarness, settings: Settings) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    lost = await harness.claim()
    await harness.job(caller)
    ending = await harness.claim()
    jobs = Jobs([lost, ending], ending=frozenset({ending.claim}))
    async with renewing(harness, settings, jobs) as loop:
        await harness.db.transact(_take_away, ending.id)
        await harness.db.transact(_take_away, lost.id)
        await until(lambda: isinstance(jobs.stopped.get(lost.claim), Abandoned))
        await harness.job(caller)
        running = await harness.claim()
        await start_job(harness.db, running, BASE)
        jobs.active_jobs = [running]
        await cancel_job(harness.db, caller.organization_id, running.id)
        await until(lambda: isinstance(jobs.stopped.get(running.claim), Cancelled))
    assert ending.claim not in jobs.stopped
    assert loop.lost_leases == 1


async def test_a_lost_job_counts_once_however_long_it_takes_to_stop(
    harness: JobHarness, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    first = await harness.claim()
    jobs = Jobs([first])
    async with renewing(harness, settings, jobs) as loop:
        await harness.db.transact(_take_away, first.id)
        await until(lambda: first.claim in jobs.stopped)
        await harness.job(caller)
        second = await harness.claim()
        jobs.active_jobs = [first, second]
        await harness.db.transact(_take_away, second.id)
        await until(lambda: second.claim in jobs.stopped)
        renewals = jobs.renewals
        await until(lambda: jobs.renewals > renewals + 2)
    assert loop.lost_leases == 2
    lost = [message for message in caplog.messages if message.startswith("lost the claims")]
    assert lost == [f"lost the claims on {job.id}" for job in (first, second)]


@on_postgresql
async def test_a_hanging_connection_is_replaced_before_the_lease_expires(
    harness: JobHarness,
    settings: Settings,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_loop, "_ATTEMPT_SECONDS", 0.3)
    await harness.job(await harness.organization())
    job = await harness.claim()
    jobs = Jobs([job])
    async with renewing(harness, settings, jobs):
        backend = await _backend_of_leases(harness)
        os.kill(backend, signal.SIGSTOP)
        try:
            wait_for_renewal_in_thread(database_url, job.id)
        finally:
            os.kill(backend, signal.SIGCONT)
    assert jobs.stopped == {}


@on_postgresql
async def test_an_idle_worker_sends_heartbeats_without_a_connection_of_its_own(
    harness: JobHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[PostgresqlDatabase] = []

    async def open_own(url: str, **options: Any) -> PostgresqlDatabase:
        own.append(await PostgresqlDatabase.open(url, **options))
        return own[0]

    monkeypatch.setattr(in_process, "open_unchecked", open_own)
    seen_at: set[int] = set()
    async with renewing(harness, settings, Jobs([])):
        while len(seen_at) < 5:
            for row in await harness.db.fetch_all("SELECT heartbeat_at FROM workers"):
                seen_at.add(row["heartbeat_at"])
        assert (len(own[0]._pool._idle), len(own[0]._pool._timers)) == (0, 0)


async def _backend_of_leases(harness: JobHarness) -> int:
    """The process of PostgreSQL that serves the lease loop, at a moment when it holds no lock."""
    while True:
        rows = await harness.db.fetch_all(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'agentjobs' AND state = 'idle' AND query = 'COMMIT'"
            " AND pid <> pg_backend_pid()"
        )
        if rows:
            return int(rows[0]["pid"])


async def test_a_worker_that_lost_its_claims_reports_that_it_is_alive(
    harness: JobHarness, settings: Settings
) -> None:
    await harness.job(await harness.organization())
    lost = await harness.claim()
    await start_job(harness.db, lost, BASE)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, settings)
    query = "SELECT was_alive FROM lost_claims WHERE job_id = :id"
    row = await harness.db.fetch_one(query, id=lost.id)
    assert row is not None
    assert not row["was_alive"]
    async with renewing(harness, settings, Jobs([lost])):
        deadline = time.monotonic() + 60
        while not row["was_alive"] and time.monotonic() < deadline:
            row = await harness.db.fetch_one(query, id=lost.id)
            assert row is not None
    assert row["was_alive"]


async def test_a_starved_worker_holds_its_leases_longer_until_it_is_healthy_again(
    harness: JobHarness, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.job(await harness.organization())
    job = await harness.claim()
    jobs, clock, renew = Jobs([job]), ManualClock(), leases.renew
    renewal_seconds, is_away = 4.0, False

    async def slow_renew(*arguments: Any, **options: Any) -> leases.Renewal:
        if is_away:
            raise StoreUnavailable("away")
        clock.now += renewal_seconds
        return await renew(*arguments, **options)

    monkeypatch.setattr(lease_loop, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(leases, "renew", slow_renew)

    async def lease_reaches(first: float, last: float) -> None:
        deadline = time.monotonic() + 60
        while not first < await _lease_seconds(harness, job.id) <= last:
            assert time.monotonic() < deadline, await _lease_seconds(harness, job.id)

    async with renewing(harness, settings, jobs) as loop:
        # Eight renewals fit into 32 seconds.
        await lease_reaches(settings.lease_seconds + 8, 33)
        is_away = True
        # The lease of the settings would have expired, but not the one that was written.
        failed, clock.now = loop.failed_renewals, clock.now + settings.lease_seconds
        await until(lambda: loop.failed_renewals > failed + 1)
        assert jobs.stopped == {}
        is_away, renewal_seconds = False, 0.0
        await lease_reaches(0, settings.lease_seconds)
        is_away = True
        clock.now += settings.lease_seconds
        await until(lambda: isinstance(jobs.stopped.get(job.claim), Abandoned))


async def _lease_seconds(harness: JobHarness, job_id: str) -> float:
    row = await harness.db.fetch_one(
        "SELECT q.lease_expires_at - w.heartbeat_at AS lease FROM job_queue q"
        " JOIN workers w ON w.id = q.lease_owner WHERE q.job_id = :id",
        id=job_id,
    )
    return 0.0 if row is None else row["lease"] / 1_000


async def _take_away(tx: Transaction, job_id: str) -> None:
    await tx.execute("UPDATE job_queue SET fence = fence + 1 WHERE job_id = :id", id=job_id)
