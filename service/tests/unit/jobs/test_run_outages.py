"""When a run that follows an outage tells the others that the platform responds again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.agents.artifacts import Artifacts
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.protocol.outcomes import Outcome, Unreachable
from agentjobs_worker.run import run as run_module
from agentjobs_worker.run.environment import NO_ENVIRONMENT, RunEnvironment
from agentjobs_worker.run.run import run_job
from service.tests.unit.jobs.test_plan import plan
from tests.support.run_fields import RunFields


class Repo:
    """A repository whose platform answers git; `calls` are those about its outage."""

    adapter = address = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def check_outage(self) -> None:
        self.calls.append("check")

    async def end_outage(self) -> None:
        self.calls.append("end")


async def run_until_previous_pull(
    monkeypatch: pytest.MonkeyPatch, repo: Repo, previous: Exception
) -> Outcome:
    async def nothing(*_: object) -> None:
        return None

    async def open_repo(_: object) -> Repo:
        return repo

    async def load_previous_pull(*_: object) -> None:
        raise previous

    async def plan_cve_fix(*_: object) -> Any:
        return SimpleNamespace(narrow=lambda network: network)

    async def load_request(*_: object) -> Any:
        return SimpleNamespace(request=SimpleNamespace(definition=EnvironmentDefinition()))

    @asynccontextmanager
    async def choose_environment(*_: object) -> AsyncIterator[RunEnvironment]:
        yield NO_ENVIRONMENT

    for name in ("fetch_base_commit", "_configuration", "find_pushed_work", "find_merged_pull"):
        monkeypatch.setattr(run_module, name, nothing)
    monkeypatch.setattr(run_module, "plan_run", lambda *_: plan())
    monkeypatch.setattr(run_module, "load_request", load_request)
    monkeypatch.setattr(run_module, "choose_environment", choose_environment)
    monkeypatch.setattr(run_module, "find_ticket", nothing)
    monkeypatch.setattr(run_module, "open_repo", open_repo)
    monkeypatch.setattr(run_module, "plan_cve_fix", plan_cve_fix)
    monkeypatch.setattr(run_module, "load_previous_pull", load_previous_pull)
    agent = SimpleNamespace(result="pull_request")
    run: Any = RunFields(
        report=None,
        change=None,
        artifacts=Artifacts(),
        job=SimpleNamespace(
            kept_at=None, repo_id="repo_1", platform_key="con_1", agent="a", is_adopted=False
        ),
        db=None,
        link=None,
        phases=SimpleNamespace(store_in_background=lambda _: nullcontext()),
        mirror=None,
        log=SimpleNamespace(note=lambda _: None, redact=str),
        tools=SimpleNamespace(
            service=SimpleNamespace(commit_summaries=SimpleNamespace(load=nothing)),
            catalog=SimpleNamespace(get=lambda _: agent),
            mirrors=SimpleNamespace(in_use=lambda _: nullcontext()),
        ),
    )
    return await run_job(run)


async def test_an_outage_of_the_api_goes_on_although_git_responds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its age and its backoff would begin anew with each attempt."""
    repo = Repo()
    away = PlatformError("HTTP 503", "away")
    assert isinstance(await run_until_previous_pull(monkeypatch, repo, away), Unreachable)
    assert repo.calls == ["check"]
