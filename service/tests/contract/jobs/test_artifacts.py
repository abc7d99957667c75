"""Artifacts in the store, on both databases."""

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.results.artifacts import (
    find_artifact,
    list_artifacts,
    read_artifact,
    store_artifacts,
)
from agentjobs.jobs.results.run_records import remove_results
from agentjobs.organizations.authentication import Caller
from agentjobs_runtime.agents.artifacts import Artifact
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.protocol.outcomes import Failed
from tests.support.jobs import JobHarness
from tests.support.pruning import prune_and_count

LARGE = bytes(range(256)) * 10_000
FILES = [Artifact("b.bin", LARGE), Artifact("a.txt", b"text"), Artifact("empty", b"")]


async def claimed_job(harness: JobHarness) -> tuple[Caller, ClaimedJob]:
    caller = await harness.organization()
    await harness.job(caller)
    return caller, await harness.claim()


async def names(harness: JobHarness, caller: Caller, job_id: str) -> list[str]:
    stored = await list_artifacts(harness.db, caller.organization_id, job_id)
    return [each.name for each in stored]


async def test_artifacts_are_listed_by_name_and_read_as_they_were(harness: JobHarness) -> None:
    caller, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, FILES)
    assert await names(harness, caller, job.id) == ["a.txt", "b.bin", "empty"]
    for file in FILES:
        stored = await find_artifact(harness.db, caller.organization_id, job.id, file.name)
        assert (stored.size_bytes, stored.media_type) == (len(file.content), file.media_type)
        parts = [part async for part in read_artifact(harness.db, job.id, stored)]
        assert b"".join(parts) == file.content


async def test_a_retry_replaces_the_artifacts(harness: JobHarness) -> None:
    caller, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, FILES)
    stored = await find_artifact(harness.db, caller.organization_id, job.id, "b.bin")
    await store_artifacts(harness.db, job, [Artifact("c", b"1")])
    assert await names(harness, caller, job.id) == ["c"]
    assert [part async for part in read_artifact(harness.db, job.id, stored)] == []
    await remove_results(harness.db, job)
    assert await names(harness, caller, job.id) == []


async def test_a_lost_claim_changes_no_artifact(harness: JobHarness) -> None:
    caller, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, FILES)
    await finish_job(harness.db, job, Failed("agent_failed", ""))
    with pytest.raises(ClaimLost):
        await store_artifacts(harness.db, job, [Artifact("late", b"1")])
    with pytest.raises(ClaimLost):
        await remove_results(harness.db, job)
    assert await names(harness, caller, job.id) == ["a.txt", "b.bin", "empty"]


async def test_artifacts_belong_to_one_organization(harness: JobHarness) -> None:
    _, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, FILES)
    other = await harness.organization("other")
    for read in (
        list_artifacts(harness.db, other.organization_id, job.id),
        find_artifact(harness.db, other.organization_id, job.id, "a.txt"),
    ):
        with pytest.raises(Problem) as refused:
            await read
        assert refused.value.code == "job_not_found"


async def test_artifacts_are_pruned_with_the_logs(harness: JobHarness) -> None:
    caller, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, [Artifact(f"{n}", b"x") for n in range(12)])
    await finish_job(harness.db, job, Failed("agent_failed", ""))
    pruned = await prune_and_count(harness.db, now_ms() + 29 * DAY_MS, log_days=30, job_days=365)
    assert pruned["job_artifacts"] == 0
    pruned = await prune_and_count(harness.db, now_ms() + 31 * DAY_MS, log_days=30, job_days=365)
    assert (pruned["job_artifacts"], pruned["jobs"]) == (12, 0)
    assert await names(harness, caller, job.id) == []


async def test_artifacts_are_pruned_with_their_job_however_long_logs_are_kept(
    harness: JobHarness,
) -> None:
    _, job = await claimed_job(harness)
    await store_artifacts(harness.db, job, FILES)
    await finish_job(harness.db, job, Failed("agent_failed", ""))
    pruned = await prune_and_count(harness.db, now_ms() + 31 * DAY_MS, log_days=0, job_days=30)
    assert (pruned["job_artifacts"], pruned["jobs"]) == (3, 1)
