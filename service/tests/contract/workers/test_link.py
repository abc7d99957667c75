"""What a worker may ask over its connection, and what is refused, whatever transport it uses."""

from typing import Any

import pytest

from agentjobs.jobs.logs.chunks import read_chunks
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.workers.handlers import HANDLERS
from agentjobs.workers.in_process import InProcessLink
from agentjobs_runtime.agents.artifacts import Artifact
from agentjobs_runtime.agents.steps import StoredStep
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.environments.records import EnvironmentView
from agentjobs_runtime.protocol import messages
from agentjobs_runtime.protocol.claimed_job import Claim, ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost, ServiceError
from agentjobs_runtime.protocol.messages import (
    AppendLog,
    BeginDrain,
    ClaimJobs,
    FindCancelled,
    FindDeletedRepos,
    FinishJob,
    Renew,
    SignOff,
    StartJob,
)
from agentjobs_runtime.protocol.outcomes import Abandoned, Completed, Kept, KeptWork
from agentjobs_runtime.protocol.verification import Verification
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness

BASE, COMMIT = "1" * 40, "2" * 40
DONE = Completed("http://h/1", 1, COMMIT, draft=False)
CHECKS = Verification(command="make", passed=True, exit_code=0, duration_ms=1, output="")
STEP = StoredStep(sequence=1, started_at=1, kind="read", title="a", state="succeeded")
VIEW = EnvironmentView(build_id=None, image=None, image_digest=None, key=None, prepared_ms=1)


def about_a_job(claim: Claim) -> list[messages.Request[Any]]:
    """One request of each kind that is about a job."""
    return [
        StartJob(claim, BASE),
        FinishJob(claim, DONE),
        AppendLog(claim, "a line\n", 5),
        messages.FindLastStep(claim),
        messages.StoreSteps(claim, [STEP], 0),
        messages.StoreArtifacts(claim, (Artifact("a.txt", b"1"),)),
        messages.RemoveResults(claim),
        messages.RecordPhases(claim, "[]"),
        messages.RecordEnvironment(claim, VIEW),
        messages.RecordVerification(claim, CHECKS),
    ]


def heartbeat(*claims: Claim, worker_id: str = "wrk_a") -> Renew:
    worker = WorkerInfo(worker_id, "host", 2, AGENTS)
    return Renew(worker=worker, claims=claims, was_cut_off=False, sent_at=now_ms())


async def claim_one(link: InProcessLink) -> ClaimedJob:
    [job] = (await link.call(ClaimJobs(agents=AGENTS, count=1))).jobs
    return job


async def test_a_job_runs_from_claim_to_end(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    link = harness.link()
    await link.call(heartbeat())
    job = await claim_one(link)
    assert (await link.call(heartbeat(job.claim))).renewed == {job.claim}
    await link.call(StartJob(job.claim, BASE, "the prompt"))
    await link.call(AppendLog(job.claim, "a line\n", 5))
    assert await link.call(FinishJob(job.claim, DONE))
    expected = ["job.queued", "job.started", "job.completed", "pr.review_requested"]
    assert await harness.events(caller, job_id) == expected
    assert [chunk.text for chunk in await read_chunks(harness.db, job_id, 0, 9)] == ["a line\n"]


async def test_every_request_has_an_answer() -> None:
    assert set(HANDLERS) == set(messages.REQUESTS)


async def test_nothing_about_a_job_of_another_worker_is_answered(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    owner, other = harness.link(worker_id="wrk_b"), harness.link()
    await owner.call(heartbeat(worker_id="wrk_b"))
    await other.call(heartbeat())
    job = await claim_one(owner)
    without_job = {FindCancelled, FindDeletedRepos, BeginDrain, SignOff, Renew, ClaimJobs}
    requests = about_a_job(job.claim)
    assert {type(request) for request in requests} == (
        set(messages.REQUESTS) - without_job - {messages.AdoptJobs}
    )
    for request in requests:
        with pytest.raises(ClaimLost):
            await other.call(request)
    assert (await other.call(heartbeat(job.claim))).renewed == frozenset()
    assert await other.call(FindCancelled()) == frozenset()
    assert await harness.events(caller, job_id) == ["job.queued"]
    assert await read_chunks(harness.db, job_id, 0, 9) == []
    # Another fence is refused too, also for the worker that has the job.
    for request in about_a_job((job.id, job.fence + 1)):
        with pytest.raises(ClaimLost):
            await owner.call(request)
    await owner.call(StartJob(job.claim, BASE))


async def test_a_claim_that_was_lost_is_refused_although_the_session_knows_it(
    harness: JobHarness,
) -> None:
    await harness.job(await harness.organization())
    link = harness.link()
    await link.call(heartbeat())
    job = await claim_one(link)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    with pytest.raises(ClaimLost):
        await link.call(StartJob(job.claim, BASE))
    with pytest.raises(ClaimLost):
        await link.call(AppendLog(job.claim, "a line\n", 5))
    assert not await link.call(FinishJob(job.claim, DONE))
    assert not await link.call(FinishJob(job.claim, Abandoned()))


async def test_a_worker_that_was_cut_off_can_still_hand_over_its_work(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    link = harness.link()
    await link.call(heartbeat())
    job = await claim_one(link)
    await link.call(StartJob(job.claim, BASE))
    await link.call(heartbeat(job.claim))
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    assert not await link.call(FinishJob(job.claim, DONE))
    assert await link.call(FinishJob(job.claim, Kept(KeptWork(BASE, COMMIT, b"bundle"))))


async def test_a_job_that_the_worker_no_longer_renews_is_forgotten(harness: JobHarness) -> None:
    await harness.job(await harness.organization())
    link = harness.link()
    await link.call(heartbeat())
    job = await claim_one(link)
    # This heartbeat may have been written before the job was claimed.
    await link.call(heartbeat())
    await link.call(AppendLog(job.claim, "a line\n", 5))
    await link.call(heartbeat(job.claim))
    await link.call(heartbeat())
    with pytest.raises(ClaimLost):
        await link.call(AppendLog(job.claim, "a line\n", 5))


async def test_a_worker_claims_nothing_before_it_has_registered(harness: JobHarness) -> None:
    with pytest.raises(ServiceError):
        await harness.link().call(ClaimJobs(agents=AGENTS, count=1))


async def test_a_worker_cannot_send_heartbeats_of_another_one(harness: JobHarness) -> None:
    with pytest.raises(ServiceError):
        await harness.link().call(heartbeat(worker_id="wrk_b"))
    assert await harness.db.fetch_all("SELECT id FROM workers") == []


async def test_a_worker_that_signs_off_is_no_longer_listed(harness: JobHarness) -> None:
    link = harness.link()
    await link.call(heartbeat())
    await link.call(BeginDrain())
    [row] = await harness.db.fetch_all("SELECT drain_requested_at FROM workers")
    assert row["drain_requested_at"] is not None
    await link.call(SignOff())
    assert await harness.db.fetch_all("SELECT id FROM workers") == []


async def test_deleted_repositories_are_those_that_do_not_exist(harness: JobHarness) -> None:
    await harness.organization()
    [row] = await harness.db.fetch_all("SELECT id FROM repos")
    asked = {row["id"], "repo_gone"}
    assert await harness.link().call(FindDeletedRepos(asked)) == {"repo_gone"}
