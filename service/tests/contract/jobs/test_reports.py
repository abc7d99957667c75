"""Jobs that complete with a report, on both databases."""

import msgspec
import pytest

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.follow_up import FollowUpRequest, follow_up_job
from agentjobs.jobs.operations.rescue import rescue_lost_jobs
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.views.queries import list_jobs
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, JobReport, Reported
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent

BASE = "0" * 40
REPORT = Reported(JobReport("# Review\n\nAll is well.\n", '{"risk":"low","text":"\\u0000"}'))


async def started_job(harness: JobHarness) -> tuple[Caller, ClaimedJob]:
    caller = await harness.organization()
    await harness.job(caller)
    job = await harness.claim()
    await start_job(harness.db, job, BASE, "prompt")
    return caller, job


async def test_a_job_completes_with_its_report_and_without_a_pull_request(
    harness: JobHarness,
) -> None:
    caller, job = await started_job(harness)
    assert await finish_job(harness.db, job, REPORT)
    view = await harness.view(caller, job.id)
    assert (view.status, view.pr_url, view.pr_number) == ("completed", None, None)
    assert view.report_markdown == "# Review\n\nAll is well.\n"
    assert view.report_json == {"risk": "low", "text": "\0"}
    assert view.completed_at is not None
    assert await harness.events(caller, job.id) == ["job.queued", "job.started", "job.completed"]
    (listed,) = (await list_jobs(harness.context, caller.organization_id)).jobs
    assert (listed.status, listed.report_markdown) == ("completed", None)


async def test_a_report_without_json_has_none(harness: JobHarness) -> None:
    caller, job = await started_job(harness)
    await finish_job(harness.db, job, Reported(JobReport("x")))
    assert (await harness.view(caller, job.id)).report_json is None


async def test_a_job_that_was_cancelled_keeps_no_report(harness: JobHarness) -> None:
    caller, job = await started_job(harness)
    await cancel_job(harness.db, caller.organization_id, job.id)
    assert await finish_job(harness.db, job, REPORT)
    view = await harness.view(caller, job.id)
    assert (view.status, view.report_markdown) == ("cancelled", None)


async def test_the_report_of_a_lost_claim_is_accepted_until_the_agent_starts_again(
    harness: JobHarness,
) -> None:
    caller, job = await started_job(harness)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    other = await harness.claim("wrk_b")
    assert await finish_job(harness.db, job, REPORT)
    view = await harness.view(caller, job.id)
    assert (view.status, view.attempt) == ("completed", 1)
    assert view.report_markdown is not None
    # The worker that was preparing the job has lost its claim.
    assert not await finish_job(harness.db, other, REPORT)
    expected = ["job.queued", "job.started", "job.completed"]
    assert (await harness.events(caller, job.id))[-3:] == expected


async def test_the_report_of_a_lost_claim_is_refused_once_the_agent_runs_again(
    harness: JobHarness,
) -> None:
    caller, job = await started_job(harness)
    await harness.expire_leases()
    await rescue_lost_jobs(harness.db, harness.context.settings)
    other = await harness.claim("wrk_b")
    await start_job(harness.db, other, BASE, "prompt")
    assert not await finish_job(harness.db, job, REPORT)
    assert (await harness.view(caller, job.id)).status == "running"
    assert await finish_job(harness.db, other, Reported(JobReport("second")))
    assert (await harness.view(caller, job.id)).report_markdown == "second"


async def test_a_report_has_no_pull_request_to_follow_up_on(harness: JobHarness) -> None:
    caller, job = await started_job(harness)
    await finish_job(harness.db, job, REPORT)
    with pytest.raises(Problem, match="completed with a report") as refused:
        await follow_up_job(harness.context, caller, job.id, FollowUpRequest("more"))
    assert refused.value.code == "pull_not_open"


async def test_an_agent_that_reports_does_not_follow_up(harness: JobHarness) -> None:
    caller, job = await started_job(harness)
    await harness.db.transact(_insert_pull, job)
    await finish_job(harness.db, job, Completed("http://x/1", 1, BASE, draft=False))
    reviewer = msgspec.structs.replace(an_agent("reviewer"), result="report")
    context = JobsContext(harness.db, harness.context.settings, Catalog([reviewer]))
    request = FollowUpRequest("more", agent="reviewer")
    with pytest.raises(Problem, match="writes a report and cannot change") as refused:
        await follow_up_job(context, caller, job.id, request)
    assert refused.value.code == "validation_failed"


async def _insert_pull(tx: Transaction, job: ClaimedJob) -> None:
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, head_branch, base_branch, head_commit, base_commit,"
        " title, body, state, draft, created_at) VALUES (:repo_id, 1, :branch, 'main', :commit,"
        " :commit, 't', '', 'open', :draft, 0)",
        repo_id=job.repo_id,
        branch=job.branch,
        commit=BASE,
        draft=False,
    )
