"""Follow-ups on both databases: what is accepted, and one at a time."""

import asyncio
from typing import Any

import msgspec
import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.operations.follow_up import (
    FollowUpRequest,
    earlier_job,
    follow_up_faults,
    follow_up_job,
)
from agentjobs.jobs.operations.idempotency import IdempotencyClaim
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.review import mark_ready
from agentjobs.organizations.authentication import Caller
from agentjobs.platforms.protocol import PlatformError, PullRequest, PullRequestRequest, RepoAddress
from agentjobs.publishing.previous_pull import load_previous_pull
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.pulls.pulls import close_pull
from agentjobs.store.database import Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed, Failed, JobFailed
from tests.support.jobs import JobHarness, insert_repo

BASE, COMMIT, NEXT = "0" * 40, "1" * 40, "2" * 40


def adapter_of(harness: JobHarness) -> LocalPlatform:
    return LocalPlatform(harness.db, "http://127.0.0.1:1", "https://jobs.example", may_write_branch)


def address_of(job: ClaimedJob) -> RepoAddress:
    return RepoAddress(job.organization, job.repo, job.repo_id)


async def opened(harness: JobHarness, job: ClaimedJob, commit: str, **fields: Any) -> PullRequest:
    request = PullRequestRequest(
        head_branch=job.branch,
        base_branch="main",
        head_commit=commit,
        base_commit=BASE,
        title="Fix the price",
        body="",
        is_follow_up=job.follows is not None,
        **fields,
    )
    return await adapter_of(harness).open_pull_request(address_of(job), job.credential, request)


async def run_next_job(harness: JobHarness, commit: str = COMMIT, **fields: Any) -> ClaimedJob:
    """Claim, start and finish the next job, as a worker does."""
    job = await harness.claim()
    await start_job(harness.db, job, BASE)
    pull = await opened(harness, job, commit, **fields)
    assert await finish_job(harness.db, job, Completed(pull.url, pull.number, commit, pull.draft))
    return job


async def completed(
    harness: JobHarness, caller: Caller, *, draft: bool = False, **fields: Any
) -> str:
    job_id = await harness.job(caller, **fields)
    await run_next_job(harness, draft=draft)
    return job_id


async def create_follow_up(harness: JobHarness, caller: Caller, job_id: str, **fields: Any) -> str:
    body = FollowUpRequest(**{"prompt": "Now test it.", **fields})
    return (await follow_up_job(harness.context, caller, job_id, body)).receipt.job_id


async def problem_of(harness: JobHarness, caller: Caller, job_id: str, **fields: Any) -> Problem:
    with pytest.raises(Problem) as problem:
        await create_follow_up(harness, caller, job_id, **fields)
    return problem.value


async def test_a_follow_up_is_queued_on_the_branch_of_the_job_it_follows(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller, ticket_id="ABC-1", config_override={"draft": True})
    follow_up = await create_follow_up(harness, caller, job_id, timeout_seconds=60)
    assert await harness.events(caller, follow_up) == ["job.queued"]
    claimed = await harness.claim()
    assert (claimed.id, claimed.follows, claimed.ticket_id) == (follow_up, job_id, "ABC-1")
    assert claimed.branch == claimed.base_branch
    assert claimed.branch.endswith(f"/{job_id[-12:]}-ABC-1")
    assert claimed.config_override == {"prompt": "Now test it.", "timeout_seconds": 60}


@pytest.mark.parametrize(
    ("requested", "expected"), [(None, "high"), ("low", "low"), ("normal", "normal")]
)
async def test_a_follow_up_has_the_priority_of_its_request_or_of_the_job_it_follows(
    harness: JobHarness, requested: str | None, expected: str
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller, config_override={"priority": "high"})
    await create_follow_up(harness, caller, job_id, priority=requested)
    assert (await harness.claim()).config_override["priority"] == expected


async def test_an_unknown_priority_of_a_follow_up_is_a_fault(harness: JobHarness) -> None:
    caller = await harness.organization()
    earlier = await earlier_job(
        harness.db, caller.organization_id, await completed(harness, caller)
    )
    body = {"prompt": "Now.", "priority": "urgent"}
    faults = follow_up_faults(body, earlier, harness.context.catalog)
    assert [fault["field"] for fault in faults] == ["priority"]


async def test_a_follow_up_completes_with_the_same_pull_request_and_requests_a_review(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    follow_up = await create_follow_up(harness, caller, job_id)
    await run_next_job(harness, NEXT)
    before, after = await harness.view(caller, job_id), await harness.view(caller, follow_up)
    assert (after.status, after.pr_url) == ("completed", before.pr_url)
    assert after.pr_number == before.pr_number
    assert (await harness.events(caller, follow_up))[-1] == "pr.review_requested"


async def test_another_organizations_job_is_reported_as_not_found(harness: JobHarness) -> None:
    job_id = await completed(harness, await harness.organization())
    evil = await harness.organization("evil")
    assert (await problem_of(harness, evil, job_id)).code == "job_not_found"
    assert (await problem_of(harness, evil, "job_none")).code == "job_not_found"
    with pytest.raises(Problem, match="There is no job"):
        await earlier_job(harness.db, evil.organization_id, job_id)


async def test_an_unfinished_job_is_reported_as_the_active_one(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    problem = await problem_of(harness, caller, job_id)
    assert (problem.code, problem.details) == ("follow_up_active", {"job_id": job_id})
    await start_job(harness.db, await harness.claim(), BASE)
    assert (await problem_of(harness, caller, job_id)).code == "follow_up_active"


async def test_a_failed_job_has_no_pull_request_to_continue(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await finish_job(harness.db, await harness.claim(), Failed("agent_failed", "no"))
    problem = await problem_of(harness, caller, job_id)
    assert problem.code == "pull_not_open"
    assert "create a new job" in problem.message


async def test_a_closed_or_merged_pull_request_cannot_be_continued(harness: JobHarness) -> None:
    caller = await harness.organization()
    closed = await completed(harness, caller)
    await close_pull(harness.db, "acme", "acme/shop", 1)
    assert (await problem_of(harness, caller, closed)).code == "pull_not_open"
    merged = await completed(harness, caller)
    await harness.db.transact(set_state, 2, "merged", COMMIT)
    problem = await problem_of(harness, caller, merged)
    assert problem.code == "pull_not_open"
    assert "already merged" in problem.message


async def test_a_second_follow_up_is_refused_until_the_first_has_finished(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    first = await create_follow_up(harness, caller, job_id)
    problem = await problem_of(harness, caller, job_id)
    assert (problem.code, problem.details) == ("follow_up_active", {"job_id": first})
    job = await harness.claim()
    assert (await problem_of(harness, caller, job_id)).details == {"job_id": first}
    await start_job(harness.db, job, BASE)
    assert (await problem_of(harness, caller, job_id)).details == {"job_id": first}
    await finish_job(harness.db, job, Failed("no_changes", "none"))
    await create_follow_up(harness, caller, job_id)


async def test_of_concurrent_follow_ups_one_is_accepted(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    follow_up = await create_follow_up(harness, caller, job_id)
    await run_next_job(harness, NEXT)
    # Open all connections first, so that no request has an advantage.
    await asyncio.gather(*(harness.db.ping() for _ in range(10)))
    for _ in range(4):
        # Both jobs have the same branch.
        requests = [create_follow_up(harness, caller, each) for each in (job_id, follow_up) * 5]
        results = await asyncio.gather(*requests, return_exceptions=True)
        (accepted,) = [result for result in results if isinstance(result, str)]
        problems = [result for result in results if isinstance(result, Problem)]
        assert len(problems) == 9
        assert {problem.code for problem in problems} == {"follow_up_active"}
        assert all(problem.details == {"job_id": accepted} for problem in problems)
        await finish_job(harness.db, await harness.claim(), Failed("no_changes", "none"))


async def test_other_pull_requests_can_be_continued_meanwhile(harness: JobHarness) -> None:
    caller = await harness.organization()
    first, second = await completed(harness, caller), await completed(harness, caller)
    assert await create_follow_up(harness, caller, first) != await create_follow_up(
        harness, caller, second
    )


async def test_the_same_request_returns_the_same_follow_up(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    body, claim = FollowUpRequest("Now test it."), IdempotencyClaim("k", b"1")
    first = await follow_up_job(harness.context, caller, job_id, body, idempotency=claim)
    repeated = await follow_up_job(harness.context, caller, job_id, body, idempotency=claim)
    assert (first.replayed, repeated.replayed) == (False, True)
    assert repeated.receipt == first.receipt


async def test_a_follow_up_that_is_run_again_continues_the_same_pull_request(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller, ticket_id="ABC-1")
    labels = {"team": "pay"}
    follow_up = await create_follow_up(
        *(harness, caller, job_id),
        agent="pro-fixer",
        timeout_seconds=60,
        priority="high",
        labels=labels,
    )
    claimed = await harness.claim()
    assert (await problem_of_running_again(harness, caller, follow_up)).code == "job_not_finished"
    await finish_job(harness.db, claimed, Failed("no_changes", "none"))
    repeated = (await retry_job(harness.context, caller, follow_up)).receipt.job_id
    claimed = await harness.claim()
    assert (claimed.id, claimed.follows, claimed.agent) == (repeated, job_id, "pro-fixer")
    assert claimed.branch.endswith(f"/{job_id[-12:]}-ABC-1")
    assert claimed.config_override == {
        "prompt": "Now test it.",
        "timeout_seconds": 60,
        "priority": "high",
    }
    assert (await harness.view(caller, repeated)).labels == labels
    assert (await problem_of_running_again(harness, caller, follow_up)).code == "follow_up_active"
    await finish_job(harness.db, claimed, Failed("no_changes", "none"))
    await close_pull(harness.db, caller.organization, "acme/shop", 1)
    assert (await problem_of_running_again(harness, caller, follow_up)).code == "pull_not_open"


async def test_a_follow_up_keeps_the_labels_of_the_job_unless_others_are_given(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    for wanted in ({"team": "pay"}, {}, {"run": "2"}):
        job_id = await completed(harness, caller, labels={"team": "pay"})
        given = {} if wanted == {"team": "pay"} else {"labels": wanted}
        follow_up = await create_follow_up(harness, caller, job_id, **given)
        assert (await harness.view(caller, follow_up)).labels == wanted
        await finish_job(harness.db, await harness.claim(), Failed("no_changes", "none"))


async def problem_of_running_again(harness: JobHarness, caller: Caller, job_id: str) -> Problem:
    with pytest.raises(Problem) as problem:
        await retry_job(harness.context, caller, job_id)
    return problem.value


async def test_another_agent_within_the_plan_may_follow_up(harness: JobHarness) -> None:
    caller = await harness.organization(plan="free")
    job_id = await completed(harness, caller)
    assert (await problem_of(harness, caller, job_id, agent="pro-fixer")).code == "plan_required"
    assert (await problem_of(harness, caller, job_id, agent="nobody")).code == "unknown_agent"
    rich = await harness.organization("rich")
    job_id = await completed(harness, rich)
    await create_follow_up(harness, rich, job_id, agent="pro-fixer")
    assert (await harness.claim()).agent == "pro-fixer"


async def test_a_repository_that_replaced_another_is_not_pushed_to(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    await harness.db.transact(disconnect)
    assert (await problem_of(harness, caller, job_id)).code == "repo_not_connected"
    await harness.db.transact(insert_repo, caller.organization_id, "acme/shop", "ready")
    assert (await problem_of(harness, caller, job_id)).code == "repo_not_connected"


async def test_faults_are_named_as_the_fields_of_a_follow_up(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    earlier = await earlier_job(harness.db, caller.organization_id, job_id)

    def faults(**body: Any) -> list[str]:
        return [
            fault["field"] for fault in follow_up_faults(body, earlier, harness.context.catalog)
        ]

    assert faults() == faults(prompt=None) == faults(prompt=" ") == ["prompt"]
    assert faults(prompt="x" * 20_000) == ["prompt"]
    assert faults(prompt="x", agent=7) == faults(prompt="x", agent="") == ["agent"]
    assert faults(prompt="x", timeout_seconds=0) == ["timeout_seconds"]
    assert faults(prompt="x", timeout_seconds=601) == ["timeout_seconds"]
    assert faults(prompt="x", max_cost_usd="a") == ["max_cost_usd"]
    assert faults(prompt="x", agent=None, timeout_seconds=600, title="ignored") == []


async def test_a_cost_above_the_organizations_budget_names_the_follow_ups_field(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    await harness.db.transact(limit_cost)
    problem = await problem_of(harness, caller, job_id, max_cost_usd=2.0)
    assert problem.code == "validation_failed"
    assert isinstance(problem.details, list)
    assert problem.details[0]["field"] == "max_cost_usd"
    assert "config_override" not in problem.message


async def test_the_agent_gets_the_earlier_prompts_latest_first(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller, config_override={"prompt": "Fix it."})
    await create_follow_up(harness, caller, job_id, prompt="Not asked: it fails.")
    await finish_job(harness.db, await harness.claim(), Failed("no_changes", "none"))
    second = await create_follow_up(harness, caller, job_id, prompt="Test it.")
    await run_next_job(harness, NEXT)
    await create_follow_up(harness, caller, job_id, prompt="Now document it.")
    claimed = await harness.claim()
    assert second != claimed.id
    pull = await load_previous_pull(harness.db, adapter_of(harness), address_of(claimed), claimed)
    assert pull is not None
    assert (pull.number, pull.title, pull.prompts) == (1, "Fix the price", ("Test it.", "Fix it."))


async def test_no_agent_runs_for_a_pull_request_that_was_closed_meanwhile(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await create_follow_up(harness, caller, await completed(harness, caller))
    await close_pull(harness.db, "acme", "acme/shop", 1)
    claimed = await harness.claim()
    with pytest.raises(JobFailed) as stop:
        await load_previous_pull(harness.db, adapter_of(harness), address_of(claimed), claimed)
    assert stop.value.code == "forge_error"


async def test_a_merge_without_the_follow_ups_commit_fails_it_and_one_with_it_does_not(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await create_follow_up(harness, caller, await completed(harness, caller))
    job = await harness.claim()
    await harness.db.transact(set_state, 1, "merged", COMMIT)
    with pytest.raises(PlatformError, match="was merged before"):
        await opened(harness, job, NEXT)
    await harness.db.transact(set_state, 1, "merged", NEXT)
    assert (await opened(harness, job, NEXT)).number == 1


async def test_a_follow_up_never_opens_a_pull_request(harness: JobHarness) -> None:
    caller = await harness.organization()
    await create_follow_up(harness, caller, await completed(harness, caller))
    job = await harness.claim()
    moved = msgspec.structs.replace(job, branch="agentjobs/other")
    await harness.db.transact(move_branch, job.id, moved.branch)
    with pytest.raises(PlatformError, match="no longer has a pull request"):
        await opened(harness, moved, NEXT)


async def test_a_follow_up_whose_check_fails_makes_the_pull_request_a_draft(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    follow_up = await create_follow_up(harness, caller, await completed(harness, caller))
    await run_next_job(harness, NEXT, draft=True)
    assert "pr.review_requested" not in await harness.events(caller, follow_up)
    await mark_ready(harness.db, "acme", "acme/shop", 1)
    assert (await harness.events(caller, follow_up))[-1] == "pr.review_requested"


async def test_a_draft_marked_ready_requests_one_review_by_its_latest_job(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller, draft=True)
    follow_up = await create_follow_up(harness, caller, job_id)
    await run_next_job(harness, NEXT)
    assert "pr.review_requested" not in await harness.events(caller, follow_up)
    await mark_ready(harness.db, "acme", "acme/shop", 1)
    assert (await harness.events(caller, follow_up))[-1] == "pr.review_requested"
    assert "pr.review_requested" not in await harness.events(caller, job_id)


async def set_state(tx: Transaction, number: int, state: str, head: str) -> None:
    await tx.execute(
        "UPDATE pulls SET state = :state, head_commit = :head WHERE number = :number",
        number=number,
        state=state,
        head=head,
    )


async def move_branch(tx: Transaction, job_id: str, branch: str) -> None:
    await tx.execute("UPDATE jobs SET branch = :branch WHERE id = :id", id=job_id, branch=branch)


async def disconnect(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1")


async def limit_cost(tx: Transaction) -> None:
    await tx.execute("UPDATE organizations SET job_budget_nanousd = 1000000000")


async def test_a_follow_up_uses_the_new_name_of_a_renamed_repository(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job_id = await completed(harness, caller)
    await harness.db.transact(rename_repo, "acme/store")
    follow_up = await create_follow_up(harness, caller, job_id)
    assert (await harness.view(caller, follow_up)).repo == "acme/store"


async def rename_repo(tx: Transaction, name: str) -> None:
    await tx.execute("UPDATE repos SET full_name = :name", name=name)
