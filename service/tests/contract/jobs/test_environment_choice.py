"""Which worker builds an environment, and which leaves the job to another, on both databases."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.environments import builds
from agentjobs.jobs.queue.environment_holds import hold_jobs
from agentjobs.jobs.queue.leases import renew
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import Finished, NewBuild
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_worker.environments.choice import EnvironmentChoice, EnvironmentNotReady

HERE, THERE = "location-a", "location-b"
REQUEST = EnvironmentRequest(definition=EnvironmentDefinition(setup="make deps"))


def choice_at(database: Database, location: str) -> EnvironmentChoice:
    environments: Any = SimpleNamespace(location=location, is_building=lambda *_: False)
    return EnvironmentChoice(database, environments, "org_1", "repo_1", created_at=1)


async def build_at(database: Database, location: str, finished: Finished | None) -> None:
    new = NewBuild(
        organization_id="org_1",
        repo_id="repo_1",
        reason="job",
        branch="main",
        location=location,
        request=REQUEST,
    )
    build_id = await builds.begin_build(database, new)
    if finished is not None:
        await builds.finish_build(database, build_id, finished)


async def start_worker(database: Database, location: str) -> None:
    worker = WorkerInfo(f"wrk_{location}", "host", 1, agents=[], location=location)
    await renew(database, worker, [], 10)


async def forget_heartbeats(tx: Transaction) -> None:
    await tx.execute("UPDATE workers SET heartbeat_at = 1")


async def test_the_first_worker_builds(database: Database) -> None:
    await choice_at(database, HERE).check_waiting(REQUEST)


async def test_a_worker_waits_for_the_build_of_another(database: Database) -> None:
    await build_at(database, THERE, None)
    with pytest.raises(EnvironmentNotReady) as waiting:
        await choice_at(database, HERE).check_waiting(REQUEST)
    assert waiting.value.hold.location is None


async def test_a_worker_leaves_the_job_once_to_a_running_worker_that_has_the_snapshot(
    database: Database,
) -> None:
    await build_at(database, THERE, Finished(key="k"))
    await start_worker(database, THERE)
    with pytest.raises(EnvironmentNotReady) as waiting:
        await choice_at(database, HERE).check_waiting(REQUEST)
    assert waiting.value.hold.location == THERE
    await hold_jobs(database, waiting.value.hold)
    await choice_at(database, HERE).check_waiting(REQUEST)


async def test_a_worker_builds_what_only_a_dead_one_has(database: Database) -> None:
    await build_at(database, THERE, Finished(key="k"))
    await start_worker(database, THERE)
    await database.transact(forget_heartbeats)
    await choice_at(database, HERE).check_waiting(REQUEST)


async def test_a_failure_since_the_job_was_created_names_the_build(database: Database) -> None:
    await build_at(database, THERE, Finished(error="exit code 2"))
    with pytest.raises(EnvironmentFailed, match=r"exit code 2\n.*environment log env_"):
        await choice_at(database, HERE).check_waiting(REQUEST)
