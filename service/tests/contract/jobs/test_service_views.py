"""What operators see of all organizations: what they use, and why their jobs wait."""

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.leases import renew
from agentjobs.jobs.views.organization_lines import (
    find_organization_line,
    list_organization_lines,
)
from agentjobs.jobs.views.service_queue import list_waiting
from agentjobs.organizations.pauses import pause
from agentjobs.store.database_facts import read_database_facts
from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.protocol.claimed_job import LOCAL
from agentjobs_runtime.protocol.outcomes import Outage, Unreachable
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from tests.support.jobs import AGENTS, JobHarness, insert_repo
from tests.support.users import problem_of, write

WORKER = WorkerInfo("wrk_a", "host-a", 4, AGENTS)


async def reasons(harness: JobHarness) -> dict[tuple[str, str], tuple[str, int]]:
    harness.context.fleet.forget()
    return {
        (group.organization, group.agent): (group.reason, group.jobs)
        for group in (await list_waiting(harness.context)).groups
    }


async def test_waiting_jobs_are_counted_by_organization_agent_and_reason(
    harness: JobHarness,
) -> None:
    acme, other = await harness.organization("acme"), await harness.organization("other", "free")
    for caller in (acme, acme, other):
        await harness.job(caller)
    await harness.job(acme, agent="pro-fixer")
    assert await reasons(harness) == {
        ("acme", "fixer"): ("no_worker", 2),
        ("acme", "pro-fixer"): ("no_worker", 1),
        ("other", "fixer"): ("no_worker", 1),
    }
    await renew(harness.db, WORKER, [], 10)
    assert set((await reasons(harness)).values()) == {("next", 2), ("next", 1)}
    await pause(harness.db, "acme")
    assert (await reasons(harness))["acme", "fixer"] == ("paused", 2)
    # A limit of the plan, of the repository, and a platform that does not respond.
    limit = harness.context.plans.concurrent_jobs("free")
    for _ in range(limit):
        await harness.job(other)
        await harness.claim()
    assert (await reasons(harness))["other", "fixer"] == ("plan_limit", 1)
    await write(harness.db, "UPDATE organizations SET plan = 'enterprise'")
    await write(harness.db, "UPDATE repos SET max_concurrent_jobs = 1")
    assert (await reasons(harness))["other", "fixer"] == ("repo_limit", 1)
    await write(harness.db, "UPDATE repos SET max_concurrent_jobs = NULL")
    await finish_job(harness.db, await harness.claim(), Unreachable(Outage(LOCAL, "away")))
    assert (await reasons(harness))["other", "fixer"] == ("unreachable", 1)


async def test_a_cut_list_of_waiting_jobs_says_so_even_if_its_groups_have_the_same_reason(
    harness: JobHarness,
) -> None:
    acme = await harness.organization("acme")
    for limit in (1, 2, 3):
        name = f"acme/shop-{limit}"
        await harness.db.transact(insert_repo, acme.organization_id, name, "ready")
        await write(
            harness.db,
            "UPDATE repos SET max_concurrent_jobs = :limit WHERE full_name = :name",
            limit=limit,
            name=name,
        )
        await harness.job(acme, repo=name)
    cut, whole = [await list_waiting(harness.context, limit) for limit in (2, 3)]
    assert ([group.jobs for group in cut.groups], cut.is_cut) == ([2], True)
    assert ([group.jobs for group in whole.groups], whole.is_cut) == ([3], False)


async def test_organizations_have_the_counts_and_amounts_of_what_they_use(
    harness: JobHarness,
) -> None:
    acme = await harness.organization("acme")
    await harness.organization("other", "free")
    for _ in range(3):
        await harness.job(acme)
    await harness.claim()
    today = await harness.db.clock_ms() // DAY_MS
    for day, amount in ((today, 5), (today - 40, 7)):
        await write(
            harness.db,
            "INSERT INTO daily_spending (organization_id, day, spent_nanousd)"
            " VALUES (:id, :day, :amount)",
            id=acme.organization_id,
            day=day,
            amount=amount,
        )
    line = await find_organization_line(harness.db, "acme")
    assert (line.plan, line.members, line.repos) == ("enterprise", 0, 1)
    assert (line.waiting, line.running) == (2, 1)
    assert line.oldest_waiting_at is not None
    assert (line.spent_today_nanousd, line.spent_this_month_nanousd) == (5, 5)
    assert await problem_of(find_organization_line(harness.db, "ghost")) == "not_found"

    async def names(**wanted: object) -> list[str]:
        lines = await list_organization_lines(harness.db, limit=10, **wanted)  # type: ignore[arg-type]
        return [each.name for each in lines]

    assert await names() == ["acme", "other"]
    assert await names(search="OTH") == ["other"]
    assert await names(search="%") == []
    assert await names(offset=1) == ["other"]
    for order in ("waiting", "running", "spending"):
        assert await names(order=order) == ["acme", "other"]
    await write(harness.db, "UPDATE organizations SET created_at = 1 WHERE name = 'acme'")
    assert await names(order="newest") == ["other", "acme"]


async def test_the_database_has_a_version_a_size_and_a_schema(harness: JobHarness) -> None:
    facts = await read_database_facts(harness.db)
    assert facts.engine in {"SQLite", "PostgreSQL"}
    assert facts.version[0].isdigit()
    assert facts.size_bytes > 100_000
    assert facts.schema == facts.own_schema
