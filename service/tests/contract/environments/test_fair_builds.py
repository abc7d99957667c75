"""Builds of several organizations on one worker, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.environments import builds
from agentjobs.store.database import Database
from agentjobs_runtime.environments.records import Finished
from agentjobs_worker.environments import worker_environments
from agentjobs_worker.environments.build_task import BuildTask
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from service.tests.contract.environments.test_builds import a_build, a_request, a_task


class GatedBuilds:
    """A worker whose builds run until they are let go."""

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        tools: Any = SimpleNamespace(
            slots=(0, 1), session=SimpleNamespace(close=lambda: None), snapshots=None
        )
        self.environments = WorkerEnvironments(database, directory, tools, cache_max_bytes=0)
        self.running: list[str] = []
        self.used_slots: list[int] = []
        self._changed = asyncio.Condition()
        self._gates: dict[str, asyncio.Event] = {}

    async def start(self, organization_id: str, name: str) -> str:
        """`name` is part of the definition, so that every build has its own key."""
        request = a_request(name)
        build_id = await builds.begin_build(self._database, a_build(request))
        self._gates[build_id] = asyncio.Event()
        task = a_task(build_id, request, organization_id)
        self.environments.start_build(task)
        return build_id

    def let_go(self, build_id: str) -> None:
        self._gates[build_id].set()

    async def wait_for(self, *build_ids: str) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: set(self.running) == set(build_ids))

    async def build(self, _tools: object, task: BuildTask, _log: object, *slot: int) -> Finished:
        self.used_slots += slot
        await self._change(task.build_id, is_running=True)
        try:
            await self._gates[task.build_id].wait()
        finally:
            await self._change(task.build_id, is_running=False)
        return Finished(key="k")

    async def _change(self, build_id: str, *, is_running: bool) -> None:
        async with self._changed:
            (self.running.append if is_running else self.running.remove)(build_id)
            self._changed.notify_all()


async def nothing(*_: Any) -> None: ...


@pytest.fixture
async def gated(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatedBuilds]:
    gated = GatedBuilds(database, tmp_path)
    monkeypatch.setattr(worker_environments, "build_environment", gated.build)
    monkeypatch.setattr(WorkerEnvironments, "trim", nothing)
    yield gated
    await gated.environments.close()


async def test_the_builds_of_one_organization_do_not_delay_those_of_another(
    gated: GatedBuilds,
) -> None:
    first, *others = [await gated.start("org_1", f"slow {number}") for number in range(3)]
    quick = await gated.start("org_2", "quick")
    await gated.wait_for(first, quick)
    assert sorted(gated.used_slots) == [0, 1]
    gated.let_go(quick)
    await gated.wait_for(first)
    gated.let_go(first)
    await gated.wait_for(others[0])


async def test_an_organization_has_a_limited_number_of_waiting_builds(gated: GatedBuilds) -> None:
    for number in range(1 + worker_environments.MAX_WAITING_BUILDS):
        assert gated.environments.accepts_build("org_1")
        await gated.start("org_1", f"build {number}")
    async with asyncio.timeout(20):
        while gated.environments.accepts_build("org_1"):  # noqa: ASYNC110 - no event says that it waits
            await asyncio.sleep(0)
    assert gated.environments.accepts_build("org_2")
