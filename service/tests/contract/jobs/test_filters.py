"""Which jobs the API lists, on both databases: labels, times, follow-ups, several statuses."""

import itertools
from typing import Any

import pytest

from agentjobs.jobs.states import STATUSES, JobStatus
from agentjobs.jobs.views import job_filter
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.queries import list_jobs
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import now_ms
from tests.support.jobs import JobHarness, insert_repo

PAY, OPS = {"team": "pay"}, {"team": "ops"}


async def ids(
    harness: JobHarness,
    caller: Caller,
    *statuses: JobStatus,
    limit: int = 100,
    **filters: Any,
) -> list[str]:
    """Of all pages."""
    listed: list[str] = []
    before = None
    while True:
        page = await list_jobs(
            *(harness.context, caller.organization_id, JobFilter(**filters)),
            statuses=statuses,
            limit=limit,
            before=before,
        )
        assert len(page.jobs) <= limit
        listed += [job.job_id for job in page.jobs]
        before = page.next_before
        if before is None:
            return listed


async def change(harness: JobHarness, job_id: str, **columns: Any) -> None:
    async def update(tx: Transaction) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in columns)
        await tx.execute(f"UPDATE jobs SET {assigned} WHERE id = :job_id", job_id=job_id, **columns)

    await harness.db.transact(update)


async def test_a_job_must_have_all_the_labels(harness: JobHarness) -> None:
    caller = await harness.organization()
    both = await harness.job(caller, labels={**PAY, "run": "1"})
    pay = await harness.job(caller, labels=PAY)
    ops = await harness.job(caller, labels={**OPS, "run": "1"}, agent="pro-fixer")
    await harness.job(caller)
    assert await ids(harness, caller, labels=PAY) == [pay, both]
    assert await ids(harness, caller, labels={"run": "1"}) == [ops, both]
    assert await ids(harness, caller, labels={**PAY, "run": "1"}) == [both]
    assert await ids(harness, caller, labels={"run": "1"}, agent="pro-fixer") == [ops]
    assert await ids(harness, caller, labels={"run": "1"}, agent="fixer") == [both]
    assert await ids(harness, caller, labels={"run": "1"}, since=1) == [ops, both]
    assert await ids(harness, caller, labels={"run": "1"}, until=1) == []
    assert await ids(harness, caller, labels={"team": "pa"}) == []
    assert await ids(harness, caller, labels={"tea": "pay"}) == []
    assert await ids(harness, caller, labels={f"k{number}": "" for number in range(8)}) == []


async def test_labels_of_another_organization_are_never_listed(harness: JobHarness) -> None:
    acme, evil = await harness.organization(), await harness.organization("evil")
    job_id = await harness.job(acme, labels=PAY)
    for filters in ({"labels": PAY}, {"labels": PAY, "agent": "fixer"}, {"follows": job_id}):
        assert await ids(harness, evil, **filters) == []
    await change(harness, job_id, follows="job_a")
    assert await ids(harness, evil, follows="job_a") == []
    assert await ids(harness, acme, follows="job_a") == [job_id]


async def test_follow_ups_of_a_job_are_listed_newest_first_with_other_filters(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    first = await harness.job(caller)
    later = [await harness.job(caller, labels=PAY if number else OPS) for number in range(3)]
    for job_id in later:
        await change(harness, job_id, follows=first)
    assert await ids(harness, caller, follows=first, limit=2) == later[::-1]
    assert await ids(harness, caller, follows=first, labels=PAY) == [later[2], later[1]]
    assert await ids(harness, caller, "failed", follows=first) == []
    assert await ids(harness, caller, follows=later[0]) == []


async def test_several_statuses_are_merged_in_order(harness: JobHarness) -> None:
    caller = await harness.organization()
    jobs = [await harness.job(caller, labels=PAY) for _ in range(12)]
    wanted: list[JobStatus] = ["queued", "failed", "cancelled"]
    for job_id, status in zip(jobs, itertools.cycle([*wanted, "completed"]), strict=False):
        await change(harness, job_id, status=status)
    expected = [job_id for number, job_id in enumerate(jobs) if number % 4 != 3][::-1]
    for limit in (1, 2, 5, 9, 100):
        assert await ids(harness, caller, *wanted, limit=limit) == expected
        assert await ids(harness, caller, *wanted, limit=limit, labels=PAY) == expected
    assert await ids(harness, caller, "running") == []
    assert await ids(harness, caller, *STATUSES, limit=5) == jobs[::-1]


async def test_the_time_that_a_job_shows_decides(harness: JobHarness) -> None:
    """Its identifier has another clock's time."""
    caller = await harness.organization()
    now = now_ms()
    jobs = []
    for at in (now - 30_000, now, now + 30_000):
        jobs.append(await harness.job(caller))
        await change(harness, jobs[-1], created_at=at)
    assert await ids(harness, caller, since=now) == [jobs[2], jobs[1]]
    assert await ids(harness, caller, since=now + 1) == [jobs[2]]
    assert await ids(harness, caller, until=now) == [jobs[0]]
    assert await ids(harness, caller, since=now - 30_000, until=now + 30_000) == jobs[1::-1]
    assert await ids(harness, caller, since=now, until=now) == []
    assert await ids(harness, caller, "queued", since=now, agent="fixer", labels=PAY) == []


async def test_every_combination_of_filters_finds_the_same_jobs_however_far_a_scan_reads(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await harness.organization()
    await harness.db.transact(insert_repo, caller.organization_id, "acme/tool", "ready")
    jobs = {}
    for number in range(24):
        fields = {
            "repo": ("acme/shop", "acme/tool")[number % 2],
            "agent": ("fixer", "pro-fixer")[number % 3 == 0],
            "ticket_id": (None, "T-1")[number % 4 == 0],
            "labels": ({}, PAY, {**PAY, "run": "1"})[number % 5 % 3],
        }
        jobs[await harness.job(caller, **fields)] = fields
    choices: dict[str, Any] = {
        "repo": "acme/tool",
        "agent": "fixer",
        "ticket": "T-1",
        "labels": {"run": "1", **PAY},
    }
    for sizes in ((2,), (5, 7), job_filter.SCAN_SIZES):
        monkeypatch.setattr(job_filter, "SCAN_SIZES", sizes)
        for count in range(len(choices) + 1):
            for names in itertools.combinations(choices, count):
                filters = {name: choices[name] for name in names}
                expected = [job_id for job_id in reversed(jobs) if matches(jobs[job_id], filters)]
                assert await ids(harness, caller, limit=3, **filters) == expected, filters


def matches(job: dict[str, Any], filters: dict[str, Any]) -> bool:
    return all(
        wanted.items() <= job["labels"].items()
        if name == "labels"
        else wanted == job["ticket_id" if name == "ticket" else name]
        for name, wanted in filters.items()
    )


async def test_a_search_through_many_jobs_returns_an_incomplete_page_with_a_cursor(
    harness: JobHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_filter, "SCAN_SIZES", (2, 2))
    caller = await harness.organization()
    wanted = await harness.job(caller, labels={**PAY, "run": "1"}, agent="pro-fixer")
    for number in range(40):
        await harness.job(caller, labels=PAY if number % 2 else {"run": "1"})
    both = JobFilter(labels={**PAY, "run": "1"})
    page = await list_jobs(harness.context, caller.organization_id, both)
    assert page.jobs == []
    assert page.next_before is not None
    assert await ids(harness, caller, labels=both.labels) == [wanted]
