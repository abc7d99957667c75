"""`agentjobs doctor` names queued jobs that no worker can start, and workers that need help."""

import msgspec
import pytest

from agentjobs.cli.doctor.finding import Finding
from agentjobs.cli.doctor.workers import check_workers
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.workers import drain_worker
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.platform_outages import record_outage
from agentjobs.jobs.queue.start import start_job
from agentjobs.organizations.organizations import ensure_default
from agentjobs.repos.scheduling import set_scheduling
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.claimed_job import LOCAL
from agentjobs_runtime.protocol.outcomes import EnvironmentHold, Kept, KeptWork, NotReady, Outage
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.clock_shift import ShiftClock
from tests.support.jobs import AGENTS, JobHarness

WORKER = WorkerInfo("wrk_a", "host-a", 4, AGENTS, version="1.0", tags=["gpu"])


@pytest.fixture(autouse=True)
async def default_organization(harness: JobHarness) -> None:
    await ensure_default(harness.db, harness.context.plans)


async def beat(harness: JobHarness, **changes: object) -> None:
    await renew(harness.db, msgspec.structs.replace(WORKER, **changes), [], 10)


async def findings(harness: JobHarness) -> list[Finding]:
    return await check_workers(harness.context.settings, harness.db)


async def of(harness: JobHarness, subject: str) -> list[tuple[str, str]]:
    return [
        (each.state, each.message) for each in await findings(harness) if each.subject == subject
    ]


async def _age(tx: Transaction, worker_id: str) -> None:
    await tx.execute(
        "UPDATE workers SET heartbeat_at = heartbeat_at - 180000 WHERE id = :id", id=worker_id
    )


async def test_without_workers_and_jobs_there_is_nothing_to_repair(harness: JobHarness) -> None:
    assert [each.state for each in await findings(harness)] == ["note", "ok"]


async def test_jobs_without_any_worker_are_a_problem_until_one_starts(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    await harness.job(caller)
    ((state, message),) = await of(harness, "queue")
    assert state == "problem"
    assert message.startswith("2 jobs of fixer cannot start after")
    assert "no worker is running: start `agentjobs worker`" in message
    await beat(harness)
    assert await of(harness, "queue") == [("ok", "2 jobs waiting for a free slot")]
    await drain_worker(harness.db, harness.context.settings, "wrk_a")
    ((_, message),) = await of(harness, "queue")
    assert "all workers are drained or stopping" in message


async def test_the_reason_of_each_worker_is_named(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    await beat(harness, agents=[], unready={"fixer": "sh is not installed"})
    ((_, message),) = await of(harness, "queue")
    assert message.endswith(": host-a: sh is not installed")
    await beat(harness, agents=["other"])
    ((_, message),) = await of(harness, "queue")
    assert "no running worker knows this agent" in message


async def test_missing_tags_of_the_repository_are_named(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    await set_scheduling(harness.db, "acme", "acme/shop", tags="gpu,large")
    await beat(harness)
    ((state, message),) = await of(harness, "queue")
    assert state == "problem"
    assert "`agentjobs worker --tags gpu,large`" in message


async def test_an_environment_that_no_worker_can_provide_is_a_problem(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    await beat(harness)
    job = await harness.claim()
    hold = EnvironmentHold("key", job.repo_id, None, 1_000)
    await finish_job(harness.db, job, NotReady(hold))
    ((_, message),) = await of(harness, "queue")
    assert "no running worker can provide the environment of the repository" in message
    await beat(harness, id="wrk_b", location="somewhere")
    assert [state for state, _ in await of(harness, "queue")] == ["ok"]


async def test_jobs_that_wait_for_the_git_server_are_a_problem(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    await beat(harness)
    await harness.db.transact(record_outage, Outage(LOCAL, "away"))
    _, (state, message) = await of(harness, "queue")
    assert state == "problem"
    assert message.startswith("1 job waits for the git server at the public URL")
    # It may answer for some repositories only, for instance without their directory.
    (job,) = await harness.db.fetch_all("SELECT repo_id FROM jobs")
    await harness.db.transact(record_outage, Outage(job["repo_id"], "away"))
    assert [text for _, text in await of(harness, "queue")][1:] == [message]


async def test_a_platform_that_refuses_finished_work_is_named(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    claimed = await harness.claim()
    await start_job(harness.db, claimed, "1" * 40)
    refused = Outage(claimed.refusal_key, "no permission")
    await finish_job(harness.db, claimed, Kept(KeptWork("1" * 40, "2" * 40, b"")))
    await harness.db.transact(record_outage, refused)
    await beat(harness)
    messages = [text for _, text in await of(harness, "queue")]
    assert messages[1:] == [
        "1 job waits for a platform that refuses finished work: the warnings of the jobs say why"
    ]


async def test_a_full_disk_of_a_worker_is_one_problem(harness: JobHarness) -> None:
    await beat(harness, is_disk_full=True)
    ((state, message),) = await of(harness, "disk")
    assert (state, "host-a is nearly full" in message) == ("problem", True)
    assert len(await of(harness, "workers")) == 1


async def test_dead_workers_are_told_from_live_ones(harness: JobHarness) -> None:
    for worker_id, host in (("wrk_a", "host-a"), ("wrk_b", "host-a"), ("wrk_c", "host-c")):
        await beat(harness, id=worker_id, hostname=host)
    for worker_id in ("wrk_b", "wrk_c"):
        await harness.db.transact(_age, worker_id)
    alive, restarted, gone = await of(harness, "workers")
    assert alive[0] == "ok"
    assert restarted[0] == "note"
    assert "another one runs on this host" in restarted[1]
    assert gone[0] == "problem"
    assert "host-c (wrk_c) is dead or cut off: no heartbeat for 3 minutes" in gone[1]
    assert "`agentjobs workers remove wrk_c`" in gone[1]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_the_clock_of_a_worker_that_differs_is_a_problem(
    harness: JobHarness, shift_clock: ShiftClock
) -> None:
    for shift_seconds, expected in ((-330, "5 minutes behind"), (7_900, "2 hours ahead of")):
        shift_clock(shift_seconds)
        await beat(harness)
        shift_clock(0)
        ((state, message),) = await of(harness, "clock")
        assert state == "problem"
        assert message.startswith(f"the clock of host-a is {expected} the database's")
    await beat(harness)
    assert await of(harness, "clock") == []
    assert [state for state, _ in await of(harness, "workers")] == ["ok"]
