"""The checker names what is wrong; otherwise a campaign would prove nothing."""

import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.claim import PUBLISHER
from agentjobs.jobs.queue.start import start_job
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.protocol.outcomes import Completed, Failed, Kept, KeptWork
from agentjobs_runtime.settings import Settings
from tests.faults import history
from tests.faults.checker import LEGAL_EVENTS, RETRIES, AcceptedJob, Checker, is_settled
from tests.faults.deployment import Deployment, WebhookReceiver
from tests.faults.fleet import Fleet
from tests.faults.phases import Report
from tests.faults.process import FleetProcess
from tests.faults.schedule import Schedule, Topology
from tests.support.jobs import JobHarness, job_harness
from tests.support.receiver import Received
from tests.support.service import git, sample_repository

# The process of the only worker.
LIVING = 1


@pytest.mark.parametrize("events", ["QF", "QSF", "QSCR", "QSQSCR", "QSQF"])
def test_legal_orders_of_events(events: str) -> None:
    assert LEGAL_EVENTS.fullmatch(events)


@pytest.mark.parametrize(
    "events", ["Q", "QS", "QSFF", "QSCRCR", "QSSCR", "QSCRQ", "SCR", "QSCFR", "QSQCR"]
)
def test_illegal_orders_of_events(events: str) -> None:
    assert not LEGAL_EVENTS.fullmatch(events)


@pytest.fixture
async def harness(sqlite_url: str) -> AsyncIterator[JobHarness]:
    with contextlib.closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        for statement in history.statements("sqlite"):
            connection.execute(statement)
    db = await open_database(sqlite_url, migrate=False)
    yield job_harness(db, Settings(data_dir="/nowhere"))
    await db.close()


def create_checker(
    directory: Path,
    *job_ids: str,
    reports: Sequence[Report] = (),
    arrivals: Sequence[Received] = (),
) -> Checker:
    receiver = WebhookReceiver(list(arrivals))
    deployment = Deployment(directory, "", "", receiver, {}, str, knows_writers=True)
    accepted = [AcceptedJob(job_id, "edit") for job_id in job_ids]
    schedule = Schedule(1, Topology.SINGLE, (), (), (), ((RETRIES, "0"),))
    worker = cast("FleetProcess", SimpleNamespace(pid=LIVING))
    fleet = Fleet(deployment, "no-such-mark", {"worker-1": worker})
    return Checker(fleet, schedule, accepted, list(reports))


async def check(
    harness: JobHarness, url: str, directory: Path, *job_ids: str, **evidence: Any
) -> list[str]:
    repo = await harness.db.fetch_one("SELECT id FROM repos")
    assert repo is not None
    bare = directory / "repositories" / f"{repo['id']}.git"
    git(sample_repository(directory / "source"), "clone", "-q", "--bare", ".", str(bare))
    return await create_checker(directory, *job_ids, **evidence).check(url)


async def test_a_job_that_is_lost_or_did_not_end_is_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    await start_job(harness.db, await harness.claim(), "0" * 40)
    assert await check(harness, sqlite_url, tmp_path, job_id, "job_lost") == [
        "job_lost was accepted and is lost",
        f"{job_id} is running",
        f"{job_id} is still in the queue",
        f"{job_id} has the events QS",
        f"event 1 of {job_id} has 0 deliveries",
        f"event 2 of {job_id} has 0 deliveries",
    ]
    assert not await is_settled(sqlite_url)


async def test_a_completed_job_without_a_pull_request_is_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    await finish_job(harness.db, job, Completed("http://h/1", 1, "1" * 40, draft=False))
    violations = await check(harness, sqlite_url, tmp_path, job_id)
    assert f"{job_id} is completed, its pull request: None" in violations
    assert await is_settled(sqlite_url)


async def test_a_failure_that_is_not_the_jobs_and_a_claim_lost_without_a_fault_are_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    await harness.expire_leases()
    assert await rescue_lost_jobs(harness.db, Settings(data_dir="/nowhere")) == [job_id]
    repeated = await harness.claim()
    await start_job(harness.db, repeated, "0" * 40)
    await finish_job(harness.db, repeated, Failed("repo_unavailable", "away"))
    violations = await check(harness, sqlite_url, tmp_path, job_id)
    assert f"{job_id} (fixer) is failed: repo_unavailable away" in violations
    assert f"claim 1 of {job_id} counts as lost, but nothing happened to its worker " in violations


async def test_an_agent_that_ran_without_a_start_or_after_its_work_was_kept_is_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    await finish_job(harness.db, job, Kept(KeptWork("0" * 40, "1" * 40, b"")))
    reports = [report(job_id, fence) for fence in (1, 3)]
    violations = await check(harness, sqlite_url, tmp_path, job_id, reports=reports)
    assert f"{job_id} ran its agent under claim 3 without being started" in violations
    assert violations.count(f"{job_id} ran its agent after its work was kept") == 1


async def test_an_agent_that_ran_after_its_work_was_pushed_is_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    await start_job(harness.db, await harness.claim(), "0" * 40)
    reports = [report(job_id, 1), report(job_id, 1, "pushed"), report(job_id, 3)]
    violations = await check(harness, sqlite_url, tmp_path, job_id, reports=reports)
    assert f"{job_id} ran its agent after its work was pushed" in violations


async def test_lines_that_are_lost_or_doubled_are_named(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    job = await harness.claim()
    await start_job(harness.db, job, "0" * 40)
    run = "0d9f4b2e-3a43-4e5a-9c5e-6f0a7c1b2d3e"
    await append_chunk(harness.db, job, f"{run}-1\n{run}-2\n{run}-2\n[agentjobs] a note\n")
    await finish_job(harness.db, job, Failed("agent_failed", "exit code 3"))
    violations = await check(harness, sqlite_url, tmp_path, job_id, reports=[report(job_id, 1)])
    assert f"the log of {job_id} has the lines [1, 2, 2]" in violations
    assert f"the log of {job_id} has 3 lines of its last run" in violations


async def test_a_job_that_only_lost_workers_which_live_on_must_not_fail_for_it(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    job_id = await harness.job(await harness.organization())
    settings = Settings(data_dir="/nowhere", lost_worker_retries=0)
    await start_job(harness.db, await harness.claim(), "0" * 40)
    await harness.expire_leases()
    assert await rescue_lost_jobs(harness.db, settings) == [job_id]
    expected = f"{job_id} (fixer) is failed: worker_lost"

    async def is_named(pid: int) -> bool:
        claimed = report(job_id, 1, "claimed", pid)
        directory = tmp_path / str(pid)
        violations = await check(harness, sqlite_url, directory, job_id, reports=[claimed])
        return any(violation.startswith(expected) for violation in violations)

    assert await is_named(LIVING)
    assert not await is_named(LIVING + 1)


def test_a_write_under_the_claim_of_another_process_is_named(tmp_path: Path) -> None:
    claimed = change("worker-1", ("queued", "queued"), (0, 1), (None, "a"))
    checker = create_checker(tmp_path)

    def violations(*rows: dict[str, Any]) -> list[str]:
        return list(checker.check_history({"job": [claimed, *rows]}))

    finished = change("worker-1", ("running", "failed"), (1, 2), ("a", None))
    stale = {**finished, "writer": "worker-2"}
    assert violations(finished) == []
    assert violations(stale) == ["job: worker-2 changed it to failed under claim 1 of worker-1"]
    # Others may end a claim whose lease has expired, cancel the job, or keep its work.
    assert violations({**stale, "old_lease": 1}) == []
    assert violations({**stale, "status": "cancelled"}) == []
    assert violations({**stale, "status": "running", "owner": PUBLISHER}) == []
    assert violations({**finished, "fence": 1}) == [
        "job: a claim ended without raising the fence 1"
    ]
    assert violations(finished, finished) == ["job had the states ['failed', 'failed']"]


async def test_an_event_may_arrive_late_only_if_its_first_attempt_failed(
    harness: JobHarness, sqlite_url: str, tmp_path: Path
) -> None:
    caller = await harness.organization()
    await harness.db.transact(_add_endpoint, caller.organization_id)
    job_id = await harness.job(caller)
    await start_job(harness.db, await harness.claim(), "0" * 40)
    await harness.db.transact(_mark_delivered)
    arrivals = [received(job_id, sequence) for sequence in (2, 1)]
    late = (
        f"delivery of event 1 of {job_id} arrived after later ones although its first attempt"
        " succeeded: [2, 1]"
    )
    assert late in await check(harness, sqlite_url, tmp_path / "1", job_id, arrivals=arrivals)
    await harness.db.transact(_fail_first_attempts)
    assert late not in await check(harness, sqlite_url, tmp_path / "2", job_id, arrivals=arrivals)
    missing = await check(harness, sqlite_url, tmp_path / "3", job_id)
    assert f"delivery of event 2 of {job_id} was not received" in missing


def report(job_id: str, fence: int, phase: str = "started", pid: int = 1) -> Report:
    return Report("worker-1", pid, phase, job_id, fence, "", 0)


def received(job_id: str, sequence: int) -> Received:
    headers = Message()
    headers["X-Service-Sequence"] = str(sequence)
    return Received(headers, json.dumps({"job_id": job_id}).encode(), 1)


def change(
    writer: str,
    statuses: tuple[str, str],
    fences: tuple[int, int],
    owners: tuple[str | None, str | None],
) -> dict[str, Any]:
    """A row of the history, ten seconds before the lease expires."""
    names = ("old_status", "status", "old_fence", "fence", "old_owner", "owner")
    values = dict(zip(names, (*statuses, *fences, *owners), strict=True))
    return {**values, "writer": writer, "at": 10, "old_lease": 20, "old_kept": None, "kept": None}


async def _add_endpoint(tx: Transaction, organization_id: str) -> None:
    await tx.execute(
        "INSERT INTO webhook_endpoints (id, organization_id, url, sealed, key_id, events,"
        " created_at, updated_at)"
        " VALUES ('whk_1', :organization_id, 'https://h/', '', '', '[]', 1, 1)",
        organization_id=organization_id,
    )


async def _mark_delivered(tx: Transaction) -> None:
    await tx.execute("UPDATE deliveries SET status = 'delivered', attempts = 1")


async def _fail_first_attempts(tx: Transaction) -> None:
    await tx.execute(
        "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, error_class,"
        " request_headers, response_headers, response_body)"
        " SELECT id, '000000000001', 1, 1, 'connect', '[]', '[]', '' FROM deliveries"
    )
