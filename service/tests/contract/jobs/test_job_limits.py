"""Which waiting jobs a worker may claim: tags, and limits of repositories and agents."""

import asyncio
from collections import Counter

import msgspec

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Failed
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import AGENTS, JobHarness, an_agent, insert_repo

DONE = Failed("no_changes", "")


async def set_columns(tx: Transaction, repo: str, tags: str, limit: int | None) -> None:
    await tx.execute(
        "UPDATE repos SET required_tags = :tags, max_concurrent_jobs = :limit"
        " WHERE full_name = :repo",
        tags=tags,
        limit=limit,
        repo=repo,
    )


def with_limit(harness: JobHarness, limit: int) -> JobsContext:
    """At most `limit` jobs of the agent `fixer` run at the same time."""
    limited = msgspec.structs.replace(an_agent("fixer"), max_concurrent_jobs=limit)
    catalog = Catalog([limited, an_agent("pro-fixer", "pro")])
    return JobsContext(harness.db, harness.context.settings, catalog)


async def claim_all(context: JobsContext, tags: list[str] | None = None) -> list[ClaimedJob]:
    claimer = Claimer(context, "wrk_a", tags or [])
    claimed: list[ClaimedJob] = []
    while jobs := await claimer.claim(AGENTS, 4):
        claimed += jobs
    return claimed


async def test_only_workers_with_all_tags_run_the_jobs_of_a_repository(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.db.transact(set_columns, "acme/shop", '["gpu", "large"]', None)
    await harness.db.transact(insert_repo, caller.organization_id, "acme/small", "ready")
    job_id = await harness.job(caller)
    other = await harness.job(caller, repo="acme/small")
    assert [job.id for job in await claim_all(harness.context, ["gpu"])] == [other]
    claimed = await claim_all(harness.context, ["large", "gpu", "fast"])
    assert [job.id for job in claimed] == [job_id]


async def test_the_limit_of_a_repository_is_exact_and_holds_no_other_back(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    await harness.db.transact(insert_repo, caller.organization_id, "acme/other", "ready")
    await harness.db.transact(set_columns, "acme/shop", "[]", 2)
    for _ in range(5):
        await harness.job(caller)
    for _ in range(3):
        await harness.job(caller, repo="acme/other")
    claimed = await claim_all(harness.context)
    assert Counter(job.repo for job in claimed) == {"acme/shop": 2, "acme/other": 3}
    await finish_job(harness.db, next(job for job in claimed if job.repo == "acme/shop"), DONE)
    assert [job.repo for job in await claim_all(harness.context)] == ["acme/shop"]


async def test_the_limit_of_an_agent_counts_all_organizations(harness: JobHarness) -> None:
    context = with_limit(harness, 3)
    for name in ("a", "b"):
        caller = await harness.organization(name)
        for _ in range(3):
            await harness.job(caller)
            await harness.job(caller, agent="pro-fixer")
    workers = [Claimer(context, f"wrk_{number}") for number in range(4)]
    claimed: list[ClaimedJob] = []
    for _ in range(4):
        results = await asyncio.gather(*(worker.claim(AGENTS, 3) for worker in workers))
        claimed += [job for jobs in results for job in jobs]
    assert Counter(job.agent for job in claimed) == {"fixer": 3, "pro-fixer": 6}


async def test_jobs_under_a_limit_are_not_starved_by_the_others(harness: JobHarness) -> None:
    caller = await harness.organization()
    await harness.db.transact(insert_repo, caller.organization_id, "acme/other", "ready")
    await harness.db.transact(set_columns, "acme/shop", "[]", 1)
    for _ in range(6):
        await harness.job(caller, repo="acme/other")
    late = await harness.job(caller, config_override={"priority": "high"})
    [first] = await Claimer(harness.context, "wrk_a").claim(AGENTS, 1)
    assert first.id == late
