"""Builds whose sandbox is lost, on both databases."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.environments import build_queries, builds
from agentjobs.store.database import Database
from agentjobs_worker.environments import worker_environments
from agentjobs_worker.environments.worker_environments import BuildHooks, WorkerEnvironments
from agentjobs_worker.sandbox.protocol import ImageUnavailable, SandboxError, SandboxLost
from service.tests.contract.environments.test_builds import a_build, a_request, a_task


async def end_of_build(
    database: Database, directory: Path, error: SandboxError, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str | None], str | None]:
    """What those that wait for the build are told, and its stored error."""

    async def fail(*_: Any) -> None:
        raise error

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(worker_environments, "build_environment", fail)
    monkeypatch.setattr(WorkerEnvironments, "trim", nothing)
    ends: list[str | None] = []

    async def end(waits_for: str | None) -> None:
        ends.append(waits_for)

    tools: Any = SimpleNamespace(slots=(0, 1))
    environments = WorkerEnvironments(database, directory, tools, cache_max_bytes=0)
    request = a_request()
    build_id = await builds.begin_build(database, a_build(request))
    task = a_task(build_id, request)
    environments.start_build(task, BuildHooks(renew=nothing, end=end))
    await environments.wait_until_idle()
    failure = await build_queries.find_failure(database, "repo_1", request.request_key, 0)
    return ends, None if failure is None else failure.error


async def test_a_build_whose_sandbox_is_lost_is_built_again_and_fails_no_job(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = SandboxLost("the pod of this run was evicted")
    ends = await end_of_build(database, tmp_path, error, monkeypatch)
    assert ends == (["the pod of this run was evicted"], None)


async def test_a_build_whose_image_cannot_be_fetched_fails(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ImageUnavailable("no such image")
    ends = await end_of_build(database, tmp_path, error, monkeypatch)
    assert ends == ([None], "no such image")
