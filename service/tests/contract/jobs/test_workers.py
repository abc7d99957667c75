"""What operators see of workers, draining and removing them, on both databases."""

import msgspec
import pytest

from agentjobs.cli.doctor.workers import describe_workers
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.workers import (
    WorkerView,
    drain_worker,
    list_worker_views,
    remove_worker,
    resume_worker,
)
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.queue.waiting_organizations import QueueView, WaitingOrganizations
from agentjobs.jobs.views.stuck_jobs import why_no_worker
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import ensure_default, find_organization
from agentjobs.repos.scheduling import set_scheduling
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import AGENTS, JobHarness, an_agent, claim_job

WORKER = WorkerInfo(
    "wrk_a", "host-a", 4, AGENTS, version="1.0", configuration_digest="d1", tags=["gpu", "large"]
)
DONE = Completed("http://x/1", 1, "2" * 40, draft=False)


@pytest.fixture(autouse=True)
async def default_organization(harness: JobHarness) -> None:
    await ensure_default(harness.db, harness.context.plans)


async def beat(harness: JobHarness, worker: WorkerInfo = WORKER, *jobs: ClaimedJob) -> None:
    await renew(harness.db, worker, [job.claim for job in jobs], 10)


async def views(harness: JobHarness) -> list[WorkerView]:
    return await list_worker_views(harness.db, harness.context.settings)


async def silence(tx: Transaction, worker_id: str) -> None:
    await tx.execute("UPDATE workers SET heartbeat_at = 1 WHERE id = :id", id=worker_id)


async def test_a_worker_is_listed_with_its_jobs_tags_and_version(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    await beat(harness)
    await harness.claim()
    (worker,) = await views(harness)
    assert (worker.hostname, worker.status, worker.running_jobs) == ("host-a", "ready", 1)
    assert (worker.version, worker.configuration_digest) == ("1.0", "d1")
    assert (worker.tags, worker.slots, worker.agents) == (["gpu", "large"], 4, AGENTS)
    assert 0 <= worker.heartbeat_age_ms < 60_000


async def test_the_worker_with_another_configuration_is_marked(harness: JobHarness) -> None:
    for number in range(3):
        digest = "d2" if number == 1 else "d1"
        await beat(
            harness,
            msgspec.structs.replace(WORKER, id=f"wrk_{number}", configuration_digest=digest),
        )
    assert [view.has_odd_configuration for view in await views(harness)] == [False, True, False]


async def test_a_worker_whose_sandbox_has_a_problem_is_not_ready_and_says_why(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await beat(harness, msgspec.structs.replace(WORKER, sandbox_problem="the cluster is away"))
    (view,) = await views(harness)
    assert (view.status, view.sandbox_problem, view.agents) == (
        "unready",
        "the cluster is away",
        [],
    )
    assert (await harness.view(caller, job_id)).queue_reason == "no_worker"
    agent = WORKER.agents[0]
    assert why_no_worker(agent, (), [view]) == "host-a: the cluster is away"
    (finding,) = describe_workers([view])
    assert finding.state == "problem"
    assert finding.message.endswith("it starts no job, because the cluster is away")
    await beat(harness)
    assert [view.status for view in await views(harness)] == ["ready"]


async def test_a_draining_worker_finishes_its_jobs_and_claims_none(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.job(caller)
    await beat(harness)
    running = await harness.claim()
    await start_job(harness.db, running, "1" * 40)
    waiting = await harness.job(caller)
    worker = await drain_worker(harness.db, harness.context.settings, "host-a")
    assert (worker.status, worker.running_jobs) == ("draining", 1)
    harness.context.fleet.forget()
    assert (await harness.view(caller, waiting)).queue_reason == "no_worker"
    await beat(harness, WORKER, running)
    with pytest.raises(AssertionError):
        await harness.claim("wrk_a")
    assert await finish_job(harness.db, running, DONE)
    assert [view.status for view in await views(harness)] == ["drained"]
    worker = await resume_worker(harness.db, harness.context.settings, "wrk_a")
    assert worker.status == "ready"
    assert (await harness.claim("wrk_a")).id == waiting


async def test_a_claim_that_read_before_the_drain_claims_nothing(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await beat(harness)
    await harness.job(await harness.organization())
    read = WaitingOrganizations.read

    async def read_and_be_drained(queue: WaitingOrganizations, agents: list[str]) -> QueueView:
        view = await read(queue, agents)
        await drain_worker(harness.db, harness.context.settings, "wrk_a")
        return view

    monkeypatch.setattr(WaitingOrganizations, "read", read_and_be_drained)
    assert await claim_job(harness.context, "wrk_a", AGENTS) is None


async def test_other_workers_claim_what_a_draining_worker_leaves(harness: JobHarness) -> None:
    caller = await harness.organization()
    waiting = await harness.job(caller)
    await beat(harness)
    await drain_worker(harness.db, harness.context.settings, "wrk_a")
    assert (await harness.claim("wrk_b")).id == waiting


async def test_a_silent_worker_is_removed_and_its_jobs_are_requeued(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await beat(harness)
    lost = await harness.claim()
    await start_job(harness.db, lost, "1" * 40)
    with pytest.raises(Problem, match="is alive"):
        await remove_worker(harness.db, harness.context.settings, "wrk_a")
    await harness.db.transact(silence, "wrk_a")
    assert [view.status for view in await views(harness)] == ["silent"]
    worker, requeued = await remove_worker(harness.db, harness.context.settings, "wrk_a")
    assert (worker.id, requeued) == ("wrk_a", 1)
    assert await views(harness) == []
    assert (await harness.view(caller, job_id)).status == "queued"
    assert (await harness.claim("wrk_b")).id == job_id
    assert not await finish_job(harness.db, lost, DONE)


async def test_a_worker_is_named_by_its_id_or_its_host(harness: JobHarness) -> None:
    await beat(harness)
    await beat(harness, msgspec.structs.replace(WORKER, id="wrk_b"))
    with pytest.raises(Problem, match="several workers; choose one of: wrk_a, wrk_b"):
        await drain_worker(harness.db, harness.context.settings, "host-a")
    with pytest.raises(Problem, match="no worker 'host-b'"):
        await drain_worker(harness.db, harness.context.settings, "host-b")
    assert (await drain_worker(harness.db, harness.context.settings, "wrk_b")).id == "wrk_b"


async def test_only_changes_are_audited(harness: JobHarness) -> None:
    await beat(harness)
    for change in (drain_worker, drain_worker, resume_worker, resume_worker):
        await change(harness.db, harness.context.settings, "wrk_a")
    await harness.db.transact(silence, "wrk_a")
    await remove_worker(harness.db, harness.context.settings, "wrk_a")
    default = await find_organization(harness.db, "default")
    records = await list_entries(harness.db, default.id, AuditFilter(action="worker"), limit=9)
    assert [(each.action, each.target, each.details) for each in reversed(records)] == [
        (action, "host-a", {"worker": "wrk_a"})
        for action in ("worker.drained", "worker.resumed", "worker.removed")
    ]


async def test_a_job_whose_repository_requires_tags_waits_for_a_worker_with_them(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await set_scheduling(harness.db, "acme", "acme/shop", tags="gpu")
    await beat(harness, msgspec.structs.replace(WORKER, tags=["large"]))
    job_id = await harness.job(caller)
    assert (await harness.view(caller, job_id)).queue_reason == "no_worker"
    await beat(harness, msgspec.structs.replace(WORKER, id="wrk_b"))
    harness.context.fleet.forget()
    assert (await harness.view(caller, job_id)).queue_reason is None


async def test_a_job_at_the_limit_of_its_repository_or_agent_has_a_queue_reason(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await set_scheduling(harness.db, "acme", "acme/shop", max_concurrent_jobs="1")
    await beat(harness)
    await harness.job(caller)
    await harness.claim()
    waiting = await harness.job(caller)
    assert (await harness.view(caller, waiting)).queue_reason == "repo_limit"
    await set_scheduling(harness.db, "acme", "acme/shop", max_concurrent_jobs="none")
    assert (await harness.view(caller, waiting)).queue_reason is None
    agent = msgspec.structs.replace(an_agent("fixer"), max_concurrent_jobs=1)
    harness.context.catalog = Catalog([agent])
    harness.context.fleet.forget()
    assert (await harness.view(caller, waiting)).queue_reason == "agent_limit"
