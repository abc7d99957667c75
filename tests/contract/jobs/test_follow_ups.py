"""Going on with a job's pull request, on both stores: what is accepted, and one at a time."""

import asyncio
from typing import Any

import msgspec
import pytest

from agentjobs.forges.protocol import ForgeError, PullRequest, PullRequestRequest, RepoAddress
from agentjobs.jobs.follow_up import FollowUpRequest, earlier_job, follow_up_faults, follow_up_job
from agentjobs.jobs.idempotency import IdempotencyClaim
from agentjobs.jobs.outcomes import Completed, Failed, JobFailed
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.credentials import may_write_branch
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.rerun import run_again
from agentjobs.jobs.review import mark_ready
from agentjobs.jobs.run.previous_pull import load_previous_pull
from agentjobs.organizations.authentication import Caller
from agentjobs.problems import Problem
from agentjobs.pulls.local_forge import LocalForge
from agentjobs.pulls.pulls import close_pull
from agentjobs.store.database import Transaction
from tests.support.jobs import World, insert_repo

BASE, COMMIT, NEXT = "0" * 40, "1" * 40, "2" * 40


def forge_of(world: World) -> LocalForge:
    return LocalForge(world.db, "http://127.0.0.1:1", "https://jobs.example", may_write_branch)


def address_of(job: ClaimedJob) -> RepoAddress:
    return RepoAddress(job.organization, job.repo, job.repo_id)


async def opened(world: World, job: ClaimedJob, commit: str, **fields: Any) -> PullRequest:
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
    return await forge_of(world).open_pull_request(address_of(job), job.credential, request)


async def run_to_its_end(world: World, commit: str = COMMIT, **fields: Any) -> ClaimedJob:
    """The next job of the queue, as a worker does it."""
    job = await world.claim()
    await start_job(world.db, job, BASE)
    pull = await opened(world, job, commit, **fields)
    assert await finish_job(world.db, job, Completed(pull.url, pull.number, commit, pull.draft))
    return job


async def completed(world: World, caller: Caller, *, draft: bool = False, **fields: Any) -> str:
    job_id = await world.job(caller, **fields)
    await run_to_its_end(world, draft=draft)
    return job_id


async def go_on(world: World, caller: Caller, job_id: str, **fields: Any) -> str:
    body = FollowUpRequest(**{"prompt": "Now test it.", **fields})
    return (await follow_up_job(world.context, caller, job_id, body)).receipt.job_id


async def refused(world: World, caller: Caller, job_id: str, **fields: Any) -> Problem:
    with pytest.raises(Problem) as problem:
        await go_on(world, caller, job_id, **fields)
    return problem.value


async def test_a_follow_up_is_queued_on_the_branch_of_the_job_it_goes_on_with(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller, ticket_id="ABC-1", config_override={"draft": True})
    follow_up = await go_on(world, caller, job_id, timeout_seconds=60)
    assert await world.events(caller, follow_up) == ["job.queued"]
    claimed = await world.claim()
    assert (claimed.id, claimed.follows, claimed.ticket_id) == (follow_up, job_id, "ABC-1")
    assert claimed.branch == claimed.base_branch
    assert claimed.branch.endswith(f"/{job_id[-12:]}-ABC-1")
    assert claimed.config_override == {"prompt": "Now test it.", "timeout_seconds": 60}


async def test_it_ends_with_the_same_pull_request_and_asks_for_a_review_of_its_own(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    follow_up = await go_on(world, caller, job_id)
    await run_to_its_end(world, NEXT)
    before, after = await world.view(caller, job_id), await world.view(caller, follow_up)
    assert (after.status, after.pr_url) == ("completed", before.pr_url)
    assert after.pr_number == before.pr_number
    assert (await world.events(caller, follow_up))[-1] == "pr.review_requested"


async def test_another_organizations_job_is_as_unknown_as_none(world: World) -> None:
    job_id = await completed(world, await world.organization())
    evil = await world.organization("evil")
    assert (await refused(world, evil, job_id)).code == "job_not_found"
    assert (await refused(world, evil, "job_none")).code == "job_not_found"
    with pytest.raises(Problem, match="There is no job"):
        await earlier_job(world.db, evil.organization_id, job_id)


async def test_a_job_that_is_not_finished_is_named_as_the_one_at_work(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    problem = await refused(world, caller, job_id)
    assert (problem.code, problem.details) == ("follow_up_active", {"job_id": job_id})
    await start_job(world.db, await world.claim(), BASE)
    assert (await refused(world, caller, job_id)).code == "follow_up_active"


async def test_a_job_that_failed_has_nothing_to_go_on_with(world: World) -> None:
    caller = await world.organization()
    job_id = await world.job(caller)
    await finish_job(world.db, await world.claim(), Failed("agent_failed", "no"))
    problem = await refused(world, caller, job_id)
    assert problem.code == "pull_not_open"
    assert "create a new job" in problem.message


async def test_a_closed_or_merged_pull_request_is_not_gone_on_with(world: World) -> None:
    caller = await world.organization()
    closed = await completed(world, caller)
    await close_pull(world.db, "acme", "acme/shop", 1)
    assert (await refused(world, caller, closed)).code == "pull_not_open"
    merged = await completed(world, caller)
    await world.db.transact(set_state, 2, "merged", COMMIT)
    problem = await refused(world, caller, merged)
    assert problem.code == "pull_not_open"
    assert "already merged" in problem.message


async def test_a_second_one_is_refused_until_the_first_is_finished(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    first = await go_on(world, caller, job_id)
    problem = await refused(world, caller, job_id)
    assert (problem.code, problem.details) == ("follow_up_active", {"job_id": first})
    job = await world.claim()
    assert (await refused(world, caller, job_id)).details == {"job_id": first}
    await start_job(world.db, job, BASE)
    assert (await refused(world, caller, job_id)).details == {"job_id": first}
    await finish_job(world.db, job, Failed("no_changes", "none"))
    await go_on(world, caller, job_id)


async def test_of_many_at_once_one_is_accepted(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    follow_up = await go_on(world, caller, job_id)
    await run_to_its_end(world, NEXT)
    # So that nobody is first only because the others' connections are still being opened.
    await asyncio.gather(*(world.db.ping() for _ in range(10)))
    for _ in range(4):
        # By either of its jobs, it is the same branch.
        asked = [go_on(world, caller, each) for each in (job_id, follow_up) * 5]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        (accepted,) = [answer for answer in answers if isinstance(answer, str)]
        problems = [answer for answer in answers if isinstance(answer, Problem)]
        assert len(problems) == 9
        assert {problem.code for problem in problems} == {"follow_up_active"}
        assert all(problem.details == {"job_id": accepted} for problem in problems)
        await finish_job(world.db, await world.claim(), Failed("no_changes", "none"))


async def test_other_pull_requests_go_on_meanwhile(world: World) -> None:
    caller = await world.organization()
    first, second = await completed(world, caller), await completed(world, caller)
    assert await go_on(world, caller, first) != await go_on(world, caller, second)


async def test_the_same_request_again_is_the_same_follow_up(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    body, claim = FollowUpRequest("Now test it."), IdempotencyClaim("k", b"1")
    first = await follow_up_job(world.context, caller, job_id, body, idempotency=claim)
    again = await follow_up_job(world.context, caller, job_id, body, idempotency=claim)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.receipt == first.receipt


async def test_a_follow_up_that_is_run_again_goes_on_with_the_same_pull_request(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller, ticket_id="ABC-1")
    follow_up = await go_on(world, caller, job_id, agent="pro-fixer", timeout_seconds=60)
    claimed = await world.claim()
    assert (await problem_of_running_again(world, caller, follow_up)).code == "follow_up_active"
    await finish_job(world.db, claimed, Failed("no_changes", "none"))
    again = (await run_again(world.context, caller, follow_up)).receipt.job_id
    claimed = await world.claim()
    assert (claimed.id, claimed.follows, claimed.agent) == (again, job_id, "pro-fixer")
    assert claimed.branch.endswith(f"/{job_id[-12:]}-ABC-1")
    assert claimed.config_override == {"prompt": "Now test it.", "timeout_seconds": 60}
    await finish_job(world.db, claimed, Failed("no_changes", "none"))
    await close_pull(world.db, caller.organization, "acme/shop", 1)
    assert (await problem_of_running_again(world, caller, follow_up)).code == "pull_not_open"


async def problem_of_running_again(world: World, caller: Caller, job_id: str) -> Problem:
    with pytest.raises(Problem) as problem:
        await run_again(world.context, caller, job_id)
    return problem.value


async def test_another_agent_may_go_on_within_the_plan(world: World) -> None:
    caller = await world.organization(plan="free")
    job_id = await completed(world, caller)
    assert (await refused(world, caller, job_id, agent="pro-fixer")).code == "plan_required"
    assert (await refused(world, caller, job_id, agent="nobody")).code == "unknown_agent"
    rich = await world.organization("rich")
    job_id = await completed(world, rich)
    await go_on(world, rich, job_id, agent="pro-fixer")
    assert (await world.claim()).agent == "pro-fixer"


async def test_a_repository_that_took_the_place_of_another_is_not_pushed_to(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    await world.db.transact(disconnect)
    assert (await refused(world, caller, job_id)).code == "repo_not_connected"
    await world.db.transact(insert_repo, caller.organization_id, "acme/shop", "ready")
    assert (await refused(world, caller, job_id)).code == "repo_not_connected"


async def test_faults_are_named_as_the_fields_of_a_follow_up(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    earlier = await earlier_job(world.db, caller.organization_id, job_id)

    def faults(**body: Any) -> list[str]:
        return [fault["field"] for fault in follow_up_faults(body, earlier, world.context.catalog)]

    assert faults() == faults(prompt=None) == faults(prompt=" ") == ["prompt"]
    assert faults(prompt="x" * 20_000) == ["prompt"]
    assert faults(prompt="x", agent=7) == faults(prompt="x", agent="") == ["agent"]
    assert faults(prompt="x", timeout_seconds=0) == ["timeout_seconds"]
    assert faults(prompt="x", timeout_seconds=601) == ["timeout_seconds"]
    assert faults(prompt="x", max_cost_usd="a") == ["max_cost_usd"]
    assert faults(prompt="x", agent=None, timeout_seconds=600, title="ignored") == []


async def test_a_cost_above_the_organizations_budget_is_refused_by_its_own_name(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    await world.db.transact(limit_cost)
    problem = await refused(world, caller, job_id, max_cost_usd=2.0)
    assert problem.code == "validation_failed"
    assert isinstance(problem.details, list)
    assert problem.details[0]["field"] == "max_cost_usd"
    assert "config_override" not in problem.message


async def test_an_agent_is_told_what_was_asked_before_latest_first(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller, config_override={"prompt": "Fix it."})
    await go_on(world, caller, job_id, prompt="Not asked: it fails.")
    await finish_job(world.db, await world.claim(), Failed("no_changes", "none"))
    second = await go_on(world, caller, job_id, prompt="Test it.")
    await run_to_its_end(world, NEXT)
    await go_on(world, caller, job_id, prompt="Now document it.")
    claimed = await world.claim()
    assert second != claimed.id
    pull = await load_previous_pull(world.db, forge_of(world), address_of(claimed), claimed)
    assert pull is not None
    assert (pull.number, pull.title, pull.asked) == (1, "Fix the price", ("Test it.", "Fix it."))


async def test_no_agent_is_run_for_a_pull_request_that_was_closed_meanwhile(
    world: World,
) -> None:
    caller = await world.organization()
    await go_on(world, caller, await completed(world, caller))
    await close_pull(world.db, "acme", "acme/shop", 1)
    claimed = await world.claim()
    with pytest.raises(JobFailed) as stop:
        await load_previous_pull(world.db, forge_of(world), address_of(claimed), claimed)
    assert stop.value.code == "forge_error"


async def test_a_merge_without_the_follow_ups_commit_fails_it_and_one_with_it_does_not(
    world: World,
) -> None:
    caller = await world.organization()
    await go_on(world, caller, await completed(world, caller))
    job = await world.claim()
    await world.db.transact(set_state, 1, "merged", COMMIT)
    with pytest.raises(ForgeError, match="was merged before"):
        await opened(world, job, NEXT)
    await world.db.transact(set_state, 1, "merged", NEXT)
    assert (await opened(world, job, NEXT)).number == 1


async def test_a_follow_up_never_opens_a_pull_request(world: World) -> None:
    caller = await world.organization()
    await go_on(world, caller, await completed(world, caller))
    job = await world.claim()
    elsewhere = msgspec.structs.replace(job, branch="agentjobs/other")
    await world.db.transact(move_branch, job.id, elsewhere.branch)
    with pytest.raises(ForgeError, match="no longer has a pull request"):
        await opened(world, elsewhere, NEXT)


async def test_a_follow_up_whose_check_fails_makes_a_draft_of_the_pull_request(
    world: World,
) -> None:
    caller = await world.organization()
    follow_up = await go_on(world, caller, await completed(world, caller))
    await run_to_its_end(world, NEXT, draft=True)
    assert "pr.review_requested" not in await world.events(caller, follow_up)
    await mark_ready(world.db, "acme", "acme/shop", 1)
    assert (await world.events(caller, follow_up))[-1] == "pr.review_requested"


async def test_a_draft_marked_ready_asks_for_one_review_by_its_latest_job(world: World) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller, draft=True)
    follow_up = await go_on(world, caller, job_id)
    await run_to_its_end(world, NEXT)
    assert "pr.review_requested" not in await world.events(caller, follow_up)
    await mark_ready(world.db, "acme", "acme/shop", 1)
    assert (await world.events(caller, follow_up))[-1] == "pr.review_requested"
    assert "pr.review_requested" not in await world.events(caller, job_id)


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


async def test_a_repository_that_was_renamed_is_gone_on_with_under_its_new_name(
    world: World,
) -> None:
    caller = await world.organization()
    job_id = await completed(world, caller)
    await world.db.transact(rename_repo, "acme/store")
    follow_up = await go_on(world, caller, job_id)
    assert (await world.view(caller, follow_up)).repo == "acme/store"


async def rename_repo(tx: Transaction, name: str) -> None:
    await tx.execute("UPDATE repos SET full_name = :name", name=name)
