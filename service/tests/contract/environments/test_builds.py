"""Builds of environments as rows, on both databases."""

from agentjobs.environments import build_queries, builds
from agentjobs.environments.build_queries import KEPT_ROWS
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import CacheFile, EnvironmentRequest
from agentjobs_runtime.environments.records import Finished, NewBuild
from agentjobs_runtime.environments.setup_access import SetupAccess
from agentjobs_worker.environments.build_task import BuildTask

HERE, THERE = "location-a", "location-b"


def a_request(*files: str, setup: str = "make deps", generation: int = 0) -> EnvironmentRequest:
    return EnvironmentRequest(
        definition=EnvironmentDefinition(setup=setup),
        files=tuple(CacheFile(file, "1" * 40) for file in files),
        generation=generation,
    )


def a_build(request: EnvironmentRequest | None = None, location: str | None = HERE) -> NewBuild:
    return NewBuild(
        organization_id="org_1",
        repo_id="repo_1",
        reason="job" if location else "request",
        branch="main",
        location=location,
        request=request,
    )


def a_task(build_id: str, request: EnvironmentRequest, organization_id: str = "org_1") -> BuildTask:
    return BuildTask(
        build_id=build_id,
        organization_id=organization_id,
        repo_id="repo_1",
        commit="",
        request=request,
        access=SetupAccess(),
    )


async def ready(database: Database, request: EnvironmentRequest, location: str = HERE) -> str:
    build_id = await builds.begin_build(database, a_build(request, location))
    await builds.finish_build(database, build_id, Finished(key="k", size_bytes=7, setup_ms=3))
    return build_id


async def expire(tx: Transaction) -> None:
    await tx.execute("UPDATE environment_builds SET lease_until = 1 WHERE state = 'building'")


async def test_the_newest_snapshot_of_a_location_is_found(database: Database) -> None:
    request = a_request("uv.lock")
    await ready(database, request)
    newest = await ready(database, request)
    elsewhere = await ready(database, request, THERE)
    await ready(database, a_request("other.lock"))
    found = await build_queries.find_ready(database, "repo_1", request.request_key, HERE)
    assert found[0].id == newest
    assert (found[0].size_bytes, found[0].setup_ms, found[0].key) == (7, 3, "k")
    anywhere = await build_queries.find_ready(database, "repo_1", request.request_key)
    assert {build.id for build in anywhere} >= {newest, elsewhere}
    assert await build_queries.find_ready(database, "repo_2", request.request_key) == []


async def test_a_commit_that_is_not_trusted_gets_the_snapshot_with_the_most_equal_files(
    database: Database,
) -> None:
    await ready(database, a_request("a"))
    best = await ready(database, a_request("a", "b"))
    await ready(database, a_request("c"))
    await ready(database, a_request("a", "b", "d", generation=1))
    found = await build_queries.find_best(database, "repo_1", a_request("a", "b", "x"), HERE)
    assert found is not None
    assert found.id == best
    assert await build_queries.find_best(database, "repo_1", a_request("a"), THERE) is None


async def test_only_a_failure_after_the_job_was_created_fails_it(database: Database) -> None:
    request = a_request()
    build_id = await builds.begin_build(database, a_build(request))
    await builds.finish_build(database, build_id, Finished(error="exit code 2", log="no such file"))
    failure = await build_queries.find_failure(database, "repo_1", request.request_key, 0)
    assert failure is not None
    assert failure.error == "exit code 2"
    assert await build_queries.read_log(database, build_id) == "no such file"
    later = await database.clock_ms() + 60_000
    assert await build_queries.find_failure(database, "repo_1", request.request_key, later) is None
    await ready(database, request)
    assert await build_queries.find_failure(database, "repo_1", request.request_key, 0) is None


async def test_a_requested_build_is_claimed_once(database: Database) -> None:
    build_id = await database.transact(builds.request_build, a_build(location=None))
    claimed = await builds.claim_requested(database, HERE, b"hash")
    assert claimed is not None
    assert (claimed.id, claimed.location, claimed.state) == (build_id, HERE, "building")
    assert await builds.claim_requested(database, HERE, b"hash") is None


async def test_a_build_for_another_location_is_left_to_it(database: Database) -> None:
    await database.transact(builds.request_build, a_build(location=THERE))
    assert await builds.claim_requested(database, HERE, b"hash") is None
    assert await builds.claim_requested(database, THERE, b"hash") is not None


async def test_a_build_whose_worker_died_ends_and_fails_no_job(database: Database) -> None:
    request = a_request()
    build_id = await builds.begin_build(database, a_build(request))
    await builds.fail_abandoned(database)
    assert await builds.renew_build(database, build_id, "still here")
    await database.transact(expire)
    await builds.fail_abandoned(database)
    assert not await builds.renew_build(database, build_id, "too late")
    [build] = await build_queries.list_builds(database, "repo_1")
    assert build.state == "removed"
    assert await build_queries.find_failure(database, "repo_1", request.request_key, 0) is None


async def test_removed_snapshots_are_not_found_and_uses_are_counted(database: Database) -> None:
    request = a_request()
    build_id = await ready(database, request)
    await builds.record_use(database, build_id)
    await builds.record_use(database, build_id)
    build = await build_queries.find_build(database, build_id, "repo_1")
    assert build is not None
    assert build.hits == 2
    assert build.used_at is not None
    assert await build_queries.states_at(database, HERE) == {build_id: "ready"}
    await builds.mark_removed(database, [build_id])
    assert await build_queries.states_at(database, HERE) == {}
    assert await build_queries.find_ready(database, "repo_1", request.request_key, HERE) == []


async def test_old_rows_of_a_repository_are_deleted_but_no_snapshot(database: Database) -> None:
    kept = await ready(database, a_request())
    for _ in range(KEPT_ROWS + 3):
        build_id = await builds.begin_build(database, a_build(a_request()))
        await builds.finish_build(database, build_id, Finished(error="failed"))
    await builds.begin_build(database, a_build(a_request()))
    rows = await build_queries.list_builds(database, "repo_1", limit=1_000)
    assert len(rows) == KEPT_ROWS + 1
    assert kept in {row.id for row in rows}
