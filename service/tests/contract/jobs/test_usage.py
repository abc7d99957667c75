"""What the jobs of a period used, on both databases."""

from typing import Any

from agentjobs.jobs.views.usage import GroupBy, Sums, add_up, read_usage
from agentjobs.organizations.authentication import Caller
from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.identifiers import first_id_at
from tests.support.jobs import JobHarness

START = 20_000 * DAY_MS
SECOND_MS = 1_000


async def a_job(harness: JobHarness, caller: Caller, at: int, status: str, **columns: Any) -> None:
    """Created at that time, started after a second and finished after eleven; 5 and 2 tokens."""
    created_id = await harness.job(caller)
    job_id = first_id_at("job", at)[:-4] + created_id[-4:]
    values = {
        "id": job_id,
        "status": status,
        "created_at": at,
        "started_at": None if status == "queued" else at + SECOND_MS,
        "completed_at": None if status in ("queued", "running") else at + 11 * SECOND_MS,
        **columns,
    }

    async def update(tx: Transaction) -> None:
        assigned = ", ".join(f"{name} = :{name}" for name in values)
        await tx.execute(
            f"UPDATE jobs SET {assigned} WHERE id = :created_id", created_id=created_id, **values
        )
        if status == "completed":
            await tx.execute(
                "INSERT INTO job_spending (job_id, spent_nanousd, input_tokens, output_tokens)"
                " VALUES (:job_id, 500, 5, 2)",
                job_id=job_id,
            )

    await harness.db.transact(update)


async def usage(
    harness: JobHarness,
    caller: Caller,
    *,
    from_ms: int = START,
    to_ms: int = START + 10 * DAY_MS,
    group_by: GroupBy | None = None,
    max_groups: int = 1_000,
) -> list[Sums]:
    return await read_usage(
        harness.db,
        caller.organization_id,
        from_ms=from_ms,
        to_ms=to_ms,
        group_by=group_by,
        max_groups=max_groups,
    )


async def test_the_jobs_of_a_period_are_summed(harness: JobHarness) -> None:
    caller = await harness.organization()
    other = await harness.organization("other")
    for status in ("completed", "completed", "failed", "cancelled", "queued"):
        await a_job(harness, caller, START, status)
    await a_job(harness, other, START, "completed")
    (sums,) = await usage(harness, caller)
    assert sums == Sums(
        key=caller.organization_id,
        jobs=5,
        queued=1,
        running=0,
        completed=2,
        failed=1,
        cancelled=1,
        agent_ms=40 * SECOND_MS,
        input_tokens=10,
        output_tokens=4,
        cost_nanousd=1_000,
    )


async def test_an_agent_that_still_runs_counts_until_now(harness: JobHarness) -> None:
    caller = await harness.organization()
    now = await harness.db.clock_ms()
    await a_job(harness, caller, now - 61 * SECOND_MS, "running")
    (sums,) = await usage(harness, caller, from_ms=now - DAY_MS, to_ms=now)
    assert sums.running == 1
    assert 60 * SECOND_MS <= sums.agent_ms < 120 * SECOND_MS


async def test_the_period_begins_inclusively_and_ends_exclusively(harness: JobHarness) -> None:
    caller = await harness.organization()
    for at in (START - 1, START, START + DAY_MS - 1, START + DAY_MS):
        await a_job(harness, caller, at, "completed")
    (sums,) = await usage(harness, caller, to_ms=START + DAY_MS)
    assert sums.jobs == 2
    assert await usage(harness, caller, from_ms=START + 2 * DAY_MS) == []


async def test_the_databases_clock_decides_about_the_period(harness: JobHarness) -> None:
    """The identifier of a job may be some minutes earlier or later than the job."""
    caller = await harness.organization()
    await a_job(harness, caller, START - 600 * SECOND_MS, "completed", created_at=START)
    await a_job(harness, caller, START, "completed", created_at=START - 1)
    (sums,) = await usage(harness, caller)
    assert sums.jobs == 1


async def test_groups_have_most_jobs_first_and_the_rest_is_summed(harness: JobHarness) -> None:
    caller = await harness.organization()
    for number, agent in enumerate(("a", "a", "a", "b", "b", "c", "d")):
        columns = {"agent": agent, "repo": f"acme/{agent}"}
        await a_job(harness, caller, START + number, "completed", **columns)
    by_agent = await usage(harness, caller, group_by="agent", max_groups=2)
    assert [(each.key, each.jobs, each.cost_nanousd) for each in by_agent] == [
        ("a", 3, 1_500),
        ("b", 2, 1_000),
        (None, 2, 1_000),
    ]
    assert add_up(by_agent).jobs == 7
    by_repo = await usage(harness, caller, group_by="repo")
    assert [each.key for each in by_repo] == ["acme/a", "acme/b", "acme/c", "acme/d"]


async def test_days_are_those_of_utc(harness: JobHarness) -> None:
    caller = await harness.organization()
    for at in (START, START + DAY_MS - 1, START + DAY_MS):
        await a_job(harness, caller, at, "completed")
    days = {each.key: each.jobs for each in await usage(harness, caller, group_by="day")}
    assert days == {"20000": 2, "20001": 1}
