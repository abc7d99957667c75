"""Builds whose sandbox is lost, on both databases."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.environments import build_queries, builds
from agentjobs.store.database import Database
from agentjobs_runtime.environments.records import OUTAGE_HOLD_MS, PREFERENCE_MS
from agentjobs_runtime.protocol.outcomes import EnvironmentHold
from agentjobs_worker.environments import worker_environments
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.sandbox.protocol import ImageUnavailable, SandboxError, SandboxLost
from service.tests.contract.environments.test_builds import a_build, a_request, a_task


async def end_of_build(
    database: Database, directory: Path, error: SandboxError, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str | None]:
    """For how long the jobs that wait for the build are held, and its stored error."""

    async def fail(*_: Any) -> None:
        raise error

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(worker_environments, "build_environment", fail)
    monkeypatch.setattr(WorkerEnvironments, "trim", nothing)
    holds: list[int] = []

    async def hold_jobs(_: Database, hold: EnvironmentHold) -> None:
        holds.append(hold.hold_ms)

    monkeypatch.setattr(worker_environments, "hold_jobs", hold_jobs)

    tools: Any = SimpleNamespace(slots=(0, 1))
    environments = WorkerEnvironments(database, directory, tools, cache_max_bytes=0)
    request = a_request()
    build_id = await builds.begin_build(database, a_build(request))
    task = a_task(build_id, request)
    environments.start_build(task)
    await environments.wait_until_idle()
    failure = await build_queries.find_failure(database, "repo_1", request.request_key, 0)
    return holds[-1], None if failure is None else failure.error


async def test_a_build_whose_sandbox_is_lost_is_built_again_and_fails_no_job(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = SandboxLost("the pod of this run was evicted")
    end = await end_of_build(database, tmp_path, error, monkeypatch)
    assert end == (OUTAGE_HOLD_MS, None)


async def test_a_build_whose_image_cannot_be_fetched_fails(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ImageUnavailable("no such image")
    end = await end_of_build(database, tmp_path, error, monkeypatch)
    assert end == (PREFERENCE_MS, "no such image")
