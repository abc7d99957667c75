"""Builds that people request, and what they see of them, on both stores."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from agentjobs.environments import build_queries, builds
from agentjobs.environments.builds import request_environment_build
from agentjobs.environments.repo_settings import load_repo_settings
from agentjobs.environments.status import EnvironmentStatus, can_build, load_status
from agentjobs.jobs.operations.workers import drain_worker
from agentjobs.jobs.queue.leases import renew
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.store.database import Database
from agentjobs.web.metrics.environments import EnvironmentMetrics
from agentjobs_runtime.environments.records import Finished, NewBuild
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.loops import requested_builds
from agentjobs_worker.loops.requested_builds import EnvironmentLoop, RequestedBuilds
from tests.support.jobs import JobHarness

LOCATION = "0123456789abcdef"


class Environments:
    """The environment of acme/shop."""

    def __init__(self, harness: JobHarness, organization_id: str, repo: RepoView) -> None:
        self.db, self.settings = harness.db, harness.context.settings
        self.organization_id, self.repo = organization_id, repo

    async def request(self, *, is_rebuild: bool = False) -> str:
        return await request_environment_build(
            self.db, self.organization_id, self.repo, is_rebuild=is_rebuild
        )

    async def claim(self) -> str:
        claimed = await builds.claim_requested(self.db, LOCATION, b"x" * 32)
        assert claimed is not None
        return claimed.id

    async def status(self) -> EnvironmentStatus:
        return await load_status(self.db, self.settings.repositories_path, self.repo)

    async def add_worker(self, name: str = "build-1", location: str = LOCATION) -> None:
        worker = WorkerInfo(f"wrk_{name}", name, 1, ["fixer"], location=location)
        await renew(self.db, worker, [], 10)


@pytest.fixture
async def environments(harness: JobHarness) -> Environments:
    caller = await harness.organization("acme")
    repo = await find_repo(harness.db, caller.organization_id, "acme/shop")
    return Environments(harness, caller.organization_id, repo)


async def test_a_request_that_waits_already_is_used_again(environments: Environments) -> None:
    first = await environments.request()
    assert await environments.request() == first
    assert await environments.claim() == first
    assert await environments.request() != first


async def test_requests_of_pushes_at_a_location_are_apart_from_those_of_people(
    environments: Environments,
) -> None:
    new = NewBuild(
        organization_id=environments.organization_id,
        repo_id=environments.repo.id,
        reason="push",
        branch=environments.repo.default_branch,
        location=LOCATION,
    )
    pushed = await environments.db.transact(builds.request_build, new)
    assert await environments.db.transact(builds.request_build, new) == pushed
    assert await environments.request() != pushed


async def test_a_rebuild_retires_the_snapshots_and_both_are_in_the_audit_log(
    environments: Environments,
) -> None:
    await environments.request()
    before = await load_repo_settings(environments.db, environments.repo.id)
    await environments.request(is_rebuild=True)
    after = await load_repo_settings(environments.db, environments.repo.id)
    assert after.generation == before.generation + 1
    filters = AuditFilter(action="repo")
    entries = await list_entries(environments.db, environments.organization_id, filters, limit=10)
    assert [(each.action, each.target) for each in entries] == [
        ("repo.environment_rebuilt", "acme/shop"),
        ("repo.environment_built", "acme/shop"),
    ]


async def test_a_status_names_the_worker_of_each_snapshot(environments: Environments) -> None:
    await environments.request()
    build_id = await environments.claim()
    assert [build.id for build in (await environments.status()).in_progress] == [build_id]
    await builds.finish_build(environments.db, build_id, Finished(key="k", size_bytes=7))
    await environments.add_worker()
    status = await environments.status()
    assert (status.in_progress, [build.id for build in status.snapshots]) == ((), [build_id])
    assert status.hosts == {LOCATION: "build-1"}
    # The repository's files are not on this machine.
    assert (status.effective.source, status.current, status.nothing_to_build) == (
        "unknown",
        None,
        "",
    )


async def test_only_a_running_worker_with_a_sandbox_can_build(environments: Environments) -> None:
    db, settings = environments.db, environments.settings
    assert not await can_build(db, settings)
    await environments.add_worker("small", "")
    assert not await can_build(db, settings)
    await environments.add_worker()
    assert await can_build(db, settings)
    await drain_worker(db, settings, "build-1")
    assert not await can_build(db, settings)


@pytest.mark.parametrize("change", ["claim", "renew", "finish", "abandon"])
async def test_whoever_follows_a_log_is_woken_by_each_change(
    environments: Environments, change: str
) -> None:
    db: Database = environments.db
    build_id = await environments.request()
    if change != "claim":
        await environments.claim()
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "claim": environments.claim,
        "renew": lambda: builds.renew_build(db, build_id, "more"),
        "finish": lambda: builds.finish_build(db, build_id, Finished(error="no")),
        "abandon": lambda: builds.abandon_build(db, build_id),
    }
    with db.changes.listen(builds.log_topic(build_id)) as signal:
        signal.clear()
        await changes[change]()
        assert await signal.wait(10)


async def test_an_operator_finds_a_build_by_its_id_alone(environments: Environments) -> None:
    build_id = await environments.request()
    found = await build_queries.find_build(environments.db, build_id)
    assert found is not None
    assert found.repo_id == environments.repo.id
    assert await build_queries.find_build(environments.db, "env_none") is None


async def test_metrics_count_snapshots_and_builds(environments: Environments) -> None:
    registry = CollectorRegistry()
    metrics = EnvironmentMetrics(registry)
    await metrics.refresh(environments.db)
    await environments.request()
    finished = Finished(size_bytes=7, setup_ms=1_000)
    await builds.finish_build(environments.db, await environments.claim(), finished)
    await environments.request()
    for _ in range(2):
        await metrics.refresh(environments.db)
        value = registry.get_sample_value
        assert value("agentjobs_environment_snapshot_bytes") == 7
        assert value("agentjobs_environment_builds_active", {"state": "queued"}) == 1
        result = {"result": "ready"}
        assert value("agentjobs_environment_builds_finished_total", result) == 1


async def test_a_repository_that_is_fetched_slowly_delays_no_build_of_another_organization(
    harness: JobHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: asyncio.Queue[str] = asyncio.Queue()

    async def never_end(_: Any, repo_id: str, *__: str) -> str:
        fetched.put_nowait(repo_id)
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(requested_builds, "fetch_default_branch", never_end)
    repo_ids = []
    for name in ("slow", "quick"):
        caller = await harness.organization(name)
        repo = await find_repo(harness.db, caller.organization_id, f"{name}/shop")
        await request_environment_build(harness.db, caller.organization_id, repo)
        repo_ids.append(repo.id)
    tools: Any = SimpleNamespace(
        link=harness.link(), settings=harness.context.settings, service=harness, slots=(0, 1)
    )
    environments = WorkerEnvironments(harness.db, tmp_path, tools, cache_max_bytes=0)
    requested = RequestedBuilds(tools, environments)
    loops = [asyncio.create_task(EnvironmentLoop(requested).run_all()) for _ in tools.slots]
    async with asyncio.timeout(20):
        assert [await fetched.get(), await fetched.get()] == repo_ids
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)
