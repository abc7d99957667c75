"""Creating jobs, on both databases."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations import create
from agentjobs.jobs.operations.create import CreatedJob, create_job
from agentjobs.jobs.queue.acceptance import Admission, RepoName, require_admission
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.queue.lengths import MIN_REMEMBERED, QueueLengths
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.queries import list_events, list_jobs
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import IntegrityError, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from tests.support.jobs import AGENTS, JobHarness, insert_repo, job_harness
from tests.support.stores import opened


async def problem_of(harness: JobHarness, caller_name: str, **fields: str) -> Problem:
    caller = harness.callers[caller_name]
    before = await list_jobs(harness.context, caller.organization_id)
    with pytest.raises(Problem) as problem:
        await harness.job(caller, **fields)
    assert await list_jobs(harness.context, caller.organization_id) == before
    return problem.value


async def test_an_accepted_job_is_queued_and_emits_its_event(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller, ticket_id="ABC-1")
    job = await harness.view(caller, job_id)
    assert (job.status, job.ticket_id, job.attempt) == ("queued", "ABC-1", 0)
    assert (job.pr_url, job.started_at, job.completed_at, job.error) == (None, None, None, None)
    assert await harness.events(caller, job_id) == ["job.queued"]


async def test_an_events_payload_has_exactly_the_five_fields(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_id = await harness.job(caller)
    (event,) = await list_events(harness.db, caller.organization_id, job_id)
    payload = msgspec.json.decode(event.payload)
    assert payload == {
        "event": "job.queued",
        "job_id": job_id,
        "repo": "acme/shop",
        "pr_url": None,
        "timestamp": event.timestamp,
    }


async def test_each_created_job_is_delivered_to_the_endpoints_that_subscribe(
    harness: JobHarness,
) -> None:
    caller, other = await harness.organization(), await harness.organization("other")
    silent = await harness.organization("silent")
    acme = caller.organization_id
    for endpoint_id, organization_id, events in (
        ("whk_all", acme, "[]"),
        ("whk_queued", acme, '["job.failed","job.queued"]'),
        ("whk_failed", acme, '["job.failed"]'),
        ("whk_disabled", acme, "[]"),
        ("whk_removed", acme, "[]"),
        ("whk_other", other.organization_id, "[]"),
    ):
        await harness.db.transact(_insert_endpoint, endpoint_id, organization_id, events)
    await harness.db.transact(_close_endpoint, "disabled_at", "whk_disabled")
    await harness.db.transact(_close_endpoint, "removed_at", "whk_removed")
    callers = [caller, other, silent, caller]
    jobs = await asyncio.gather(*(harness.job(each) for each in callers))
    rows = await harness.db.fetch_all(
        "SELECT d.job_id, d.endpoint_id, d.event, d.organization_id, d.status, d.attempts,"
        " d.failures, d.due_at = e.created_at AS is_due, e.id = d.event_id AS has_event"
        " FROM deliveries d JOIN events e ON e.job_id = d.job_id AND e.sequence = d.sequence"
    )
    assert sorted(map(tuple, rows)) == sorted(
        (job_id, endpoint_id, "job.queued", caller.organization_id, "pending", 0, 0, True, True)
        for job_id, caller in zip(jobs, callers, strict=True)
        for endpoint_id in {
            "acme": ("whk_all", "whk_queued"),
            "other": ("whk_other",),
            "silent": (),
        }[caller.organization]
    )


async def _insert_endpoint(
    tx: Transaction, endpoint_id: str, organization_id: str, events: str
) -> None:
    await tx.execute(
        "INSERT INTO webhook_endpoints (id, organization_id, url, sealed, key_id, created_at,"
        " updated_at, events) VALUES (:id, :organization_id, 'https://hooks.example', :sealed, '',"
        " 0, 0, :events)",
        id=endpoint_id,
        organization_id=organization_id,
        sealed=b"",
        events=events,
    )


async def _close_endpoint(tx: Transaction, column: str, endpoint_id: str) -> None:
    await tx.execute(f"UPDATE webhook_endpoints SET {column} = 1 WHERE id = :id", id=endpoint_id)


async def test_a_job_whose_repository_was_deleted_meanwhile_fails_alone(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(admissions: Mapping[RepoName, Admission], repo: RepoName) -> Admission:
        admission = require_admission(admissions, repo)
        is_deleted = repo[1] == "other/shop"
        return replace(admission, repo_id="repo_gone") if is_deleted else admission

    monkeypatch.setattr(create, "require_admission", require)
    caller, other = await harness.organization(), await harness.organization("other")
    calls = (harness.job(each) for each in (caller, other, caller))
    first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(failed, IntegrityError)
    rows = await harness.db.fetch_all("SELECT id FROM jobs")
    assert {row["id"] for row in rows} == {first, last}
    rows = await harness.db.fetch_all("SELECT job_id FROM events")
    assert {row["job_id"] for row in rows} == {first, last}


async def test_jobs_created_together_keep_their_own_labels(harness: JobHarness) -> None:
    caller = await harness.organization()
    wanted = [None, {"team": "pay", "run": ""}, {"team": '{"ops"}'}]
    jobs = await asyncio.gather(*(harness.job(caller, labels=labels) for labels in wanted))
    shown = [(await harness.view(caller, job_id)).labels for job_id in jobs]
    assert shown == [labels or {} for labels in wanted]
    rows = await harness.db.fetch_all("SELECT organization_id, key, value, job_id FROM job_labels")
    assert {(row["organization_id"], row["key"], row["value"], row["job_id"]) for row in rows} == {
        (caller.organization_id, key, value, job_id)
        for job_id, labels in zip(jobs, wanted, strict=True)
        for key, value in (labels or {}).items()
    }


async def test_an_unknown_repository_is_refused(harness: JobHarness) -> None:
    await harness.organization()
    assert (await problem_of(harness, "acme", repo="acme/other")).code == "repo_not_connected"


async def test_another_organizations_repository_is_reported_as_not_connected(
    harness: JobHarness,
) -> None:
    await harness.organization()
    await harness.organization("evil")
    assert (await problem_of(harness, "evil", repo="acme/shop")).code == "repo_not_connected"


async def test_an_unknown_agent_is_refused(harness: JobHarness) -> None:
    await harness.organization()
    assert (await problem_of(harness, "acme", agent="nobody")).code == "unknown_agent"


async def test_an_agent_above_the_plan_is_refused_with_the_plan_it_needs(
    harness: JobHarness,
) -> None:
    await harness.organization(plan="free")
    problem = await problem_of(harness, "acme", agent="pro-fixer")
    assert problem.code == "plan_required"
    assert problem.details == {"plan_required": "pro"}


async def test_a_repo_still_indexing_refuses_jobs_and_emits_nothing(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.db.transact(insert_repo, caller.organization_id, "acme/new", "indexing")
    problem = await problem_of(harness, "acme", repo="acme/new")
    assert problem.code == "repo_indexing"
    assert problem.retry_after_seconds


async def test_the_repository_is_checked_before_the_agent_and_the_agent_before_the_index(
    harness: JobHarness,
) -> None:
    caller = await harness.organization(plan="free")
    await harness.db.transact(insert_repo, caller.organization_id, "acme/new", "indexing")
    assert (await problem_of(harness, "acme", repo="x/y", agent="z")).code == "repo_not_connected"
    assert (await problem_of(harness, "acme", repo="acme/new", agent="z")).code == "unknown_agent"
    problem = await problem_of(harness, "acme", repo="acme/new", agent="pro-fixer")
    assert problem.code == "plan_required"


async def test_a_full_queue_refuses_another_job(harness: JobHarness) -> None:
    settings: Settings = msgspec.structs.replace(harness.context.settings, queue_limit=2)
    small = job_harness(harness.db, settings)
    small.callers["acme"] = await harness.organization()
    await small.job(small.callers["acme"])
    await small.job(small.callers["acme"])
    assert (await problem_of(small, "acme")).code == "queue_full"


async def test_requests_at_the_same_time_share_a_transaction_but_not_a_refusal(
    harness: JobHarness,
) -> None:
    limited = job_harness(harness.db, Settings(data_dir="/nonexistent", queue_limit=3))
    caller = await harness.organization()
    other = await harness.organization("other")
    requests = [limited.job(caller, agent="nothing"), *(limited.job(caller) for _ in range(5))]
    results = await asyncio.gather(*requests, limited.job(other), return_exceptions=True)
    refused = [result.code for result in results if isinstance(result, Problem)]
    assert refused == ["unknown_agent", "queue_full", "queue_full"]
    assert len((await list_jobs(harness.context, caller.organization_id)).jobs) == 3
    assert len((await list_jobs(harness.context, other.organization_id)).jobs) == 1


async def test_priorities_order_the_jobs_of_an_organization(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_ids = {
        priority: await harness.job(caller, config_override={"priority": priority})
        for priority in ("low", "normal", "high")
    }
    claimed = [(await harness.claim()).id for _ in range(3)]
    assert claimed == [job_ids["high"], job_ids["normal"], job_ids["low"]]


async def test_the_same_key_and_body_return_the_same_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    first = await harness.same_request(caller, "k")
    repeated = await harness.same_request(caller, "k")
    assert (first.replayed, repeated.replayed) == (False, True)
    assert repeated.receipt == first.receipt
    assert len((await list_jobs(harness.context, caller.organization_id)).jobs) == 1


async def test_the_same_key_with_another_body_is_refused(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.same_request(caller, "k")
    with pytest.raises(Problem) as problem:
        await harness.same_request(caller, "k", b"2")
    assert problem.value.code == "idempotency_key_reused"


async def test_an_idempotency_key_is_scoped_to_its_organization(harness: JobHarness) -> None:
    first = await harness.same_request(await harness.organization(), "k")
    other = await harness.same_request(await harness.organization("other"), "k")
    assert not other.replayed
    assert other.receipt.job_id != first.receipt.job_id


async def test_a_refused_request_does_not_consume_its_key(harness: JobHarness) -> None:
    caller = await harness.organization()
    with pytest.raises(Problem):
        await create_job(
            harness.context,
            caller,
            CreateJobRequest("acme/none", "fixer"),
            idempotency=None,
        )
    assert not (await harness.same_request(caller, "k")).replayed


async def test_concurrent_requests_with_one_key_create_one_job(harness: JobHarness) -> None:
    caller = await harness.organization()
    results = await asyncio.gather(
        *(harness.same_request(caller, "k") for _ in range(5)), return_exceptions=True
    )
    problems = [result.code for result in results if isinstance(result, Problem)]
    assert len(problems) == 4
    assert set(problems) == {"idempotency_in_progress"}
    assert len((await list_jobs(harness.context, caller.organization_id)).jobs) == 1


async def test_one_key_creates_one_job_in_two_processes(
    harness: JobHarness, database_url: str
) -> None:
    caller = await harness.organization()
    async with opened(database_url) as db:
        other = job_harness(db, harness.context.settings)
        for key in map(str, range(20)):
            calls = (each.same_request(caller, key) for each in (harness, other))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(each, CreatedJob) and not each.replayed for each in results) == 1
            replayed = [each for each in results if not isinstance(each, CreatedJob)]
            assert {getattr(each, "code", each) for each in replayed} <= {"idempotency_in_progress"}
    rows = await harness.db.fetch_all("SELECT id FROM jobs")
    assert len(rows) == 20


async def test_the_estimate_is_zero_with_a_free_slot_and_grows_with_the_queue(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await renew(harness.db, WorkerInfo("wrk_a", "host", 2, AGENTS), [], 10)
    body = CreateJobRequest("acme/shop", "fixer")
    estimates = [
        (await create_job(harness.context, caller, body)).receipt.estimated_start_ms
        for _ in range(5)
    ]
    assert estimates[:2] == [0, 0]
    assert 0 < estimates[2] == estimates[3] < estimates[4]


async def test_jobs_held_back_by_another_plan_do_not_count_in_the_estimate(
    harness: JobHarness,
) -> None:
    await renew(harness.db, WorkerInfo("wrk_a", "host", 2, AGENTS), [], 10)
    crowded = await harness.organization("crowded", plan="free")
    for _ in range(10):
        await harness.job(crowded)
    await harness.claim()
    created = await create_job(
        harness.context, await harness.organization(), CreateJobRequest("acme/shop", "fixer")
    )
    assert created.receipt.estimated_start_ms == 0


async def test_jobs_are_listed_newest_first_with_pages_and_filters(harness: JobHarness) -> None:
    caller = await harness.organization()
    job_ids = [await harness.job(caller) for _ in range(5)]
    newest = (await list_jobs(harness.context, caller.organization_id, limit=2)).jobs
    assert [job.job_id for job in newest] == job_ids[:2:-1]
    before = newest[-1].job_id
    rest = (await list_jobs(harness.context, caller.organization_id, before=before)).jobs
    assert [job.job_id for job in rest] == job_ids[2::-1]
    none = (await list_jobs(harness.context, caller.organization_id, statuses=["running"])).jobs
    assert none == []
    by_agent = JobFilter(agent="fixer")
    assert len((await list_jobs(harness.context, caller.organization_id, by_agent)).jobs) == 5


async def test_a_long_queue_is_counted_once_a_second(harness: JobHarness) -> None:
    now = 0.0
    lengths = harness.context.queue_lengths = QueueLengths(1_000, lambda: now)
    caller = await harness.organization()
    for _ in range(MIN_REMEMBERED + 2):
        await harness.job(caller)
    assert lengths.get(caller.organization_id) == MIN_REMEMBERED + 2

    await harness.db.transact(_empty_queue)
    before = await estimate(harness, caller)
    now = 1.1
    assert await estimate(harness, caller) < before
    assert lengths.get(caller.organization_id) is None


async def estimate(harness: JobHarness, caller: Caller) -> int:
    body = CreateJobRequest("acme/shop", "fixer")
    return (await create_job(harness.context, caller, body)).receipt.estimated_start_ms


async def _empty_queue(tx: Transaction) -> None:
    await tx.execute("DELETE FROM job_queue")
    await tx.execute("UPDATE jobs SET status = 'cancelled', completed_at = 1")
