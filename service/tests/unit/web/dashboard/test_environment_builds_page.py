"""/repos/{full_name}/environment: the definition in effect, snapshots, builds and their logs."""

import re

import msgspec
import pytest

from agentjobs.environments import build_queries, builds
from agentjobs.environments.builds import request_environment_build
from agentjobs.environments.repo_settings import load_repo_settings
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs_runtime.environments.records import Finished
from service.tests.unit.web.dashboard.conftest import Dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.users import write

PATH = "/repos/acme/shop/environment"
LOCATION = "0123456789abcdef"


async def repo_of(dashboard: Dashboard, organization: str = "acme") -> RepoView:
    caller = dashboard.caller if organization == "acme" else dashboard.other
    return await find_repo(dashboard.db, caller.organization_id, f"{organization}/shop")


async def claim(dashboard: Dashboard) -> str:
    claimed = await builds.claim_requested(dashboard.db, LOCATION, b"x" * 32)
    assert claimed is not None
    return claimed.id


async def test_an_admin_builds_and_rebuilds(sample_dashboard: Dashboard) -> None:
    page = await sample_dashboard.admin.open(PATH)
    page = await sample_dashboard.admin.send(page, f"{PATH}/build")
    assert "The build was requested." in page.text
    assert "Waiting for a worker." in page.text
    build_id = await claim(sample_dashboard)
    assert page.text.count(build_id) == 2
    repo = await repo_of(sample_dashboard)
    before = await load_repo_settings(sample_dashboard.db, repo.id)
    page = await sample_dashboard.admin.send(page, f"{PATH}/rebuild")
    after = await load_repo_settings(sample_dashboard.db, repo.id)
    assert after.generation == before.generation + 1
    assert await claim(sample_dashboard) != build_id


async def test_a_page_shows_the_snapshot_its_worker_and_its_log(
    sample_dashboard: Dashboard,
) -> None:
    repo = await repo_of(sample_dashboard)
    failed, ready = await build_queries.list_builds(sample_dashboard.db, repo.id)
    page = await sample_dashboard.viewer.open(PATH)
    assert "Set by an admin." in page.text
    for text in (failed.id, ready.id, "1.0 GiB", "a" * 12, "build-1", "setup failed", "installing"):
        assert text in page.text
    assert "sha256:" not in page.text
    page = await sample_dashboard.viewer.open(f"{PATH}?build={ready.id}")
    assert f"sha256:{'b' * 64}" in page.text
    assert "setup failed" not in page.text
    assert not page.has_form(f"{PATH}/build")
    log = await sample_dashboard.viewer.get(f"{PATH}/log?build={ready.id}")
    assert (log.status_code, log.text) == (200, "installing\n")
    assert f'filename="{ready.id}.log"' in log.headers["content-disposition"]


async def test_builds_of_other_repositories_are_not_found(sample_dashboard: Dashboard) -> None:
    other = await repo_of(sample_dashboard, "other")
    foreign = (await build_queries.list_builds(sample_dashboard.db, other.id))[0].id
    for suffix in ("", "/log", "/stream"):
        for build_id in (foreign, "env_none"):
            response = await sample_dashboard.admin.get(f"{PATH}{suffix}?build={build_id}")
            assert response.status_code == 404
    assert (await sample_dashboard.admin.get("/repos/other/shop/environment")).status_code == 404


async def test_a_repository_without_an_environment_shows_what_to_write(
    sample_dashboard: Dashboard,
) -> None:
    await write(sample_dashboard.db, "DELETE FROM repo_environments")
    await write(sample_dashboard.db, "DELETE FROM environment_builds")
    page = await sample_dashboard.admin.open(PATH)
    assert "No environment" in page.text
    assert '[environment] setup = "npm ci"' in page.text
    assert not page.has_form(f"{PATH}/build")
    assert (await sample_dashboard.admin.get(f"{PATH}/log")).status_code == 404


async def test_without_a_worker_the_page_says_that_the_build_waits(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert "not on this machine" in page.text
    page = await dashboard.admin.send(page, f"{PATH}/build")
    assert "waits until a worker is running" in page.text


async def test_the_log_of_a_running_build_is_live(sample_dashboard: Dashboard) -> None:
    db, repo = sample_dashboard.db, await repo_of(sample_dashboard)
    build_id = await request_environment_build(db, sample_dashboard.caller.organization_id, repo)
    await claim(sample_dashboard)
    await builds.renew_build(db, build_id, "\x1b[32mfetching\x1b[0m\n")
    stream = await listen(
        sample_dashboard.app, sample_dashboard.viewer, f"{PATH}/stream?build={build_id}", events=3
    )
    parts = stream.parts()
    assert "fetching" in parts["repos/environment_log"].text
    assert "building" in parts["repos/environment_builds"].text
    await builds.finish_build(db, build_id, Finished(error="no\nspace"))
    page = await sample_dashboard.viewer.open(f"{PATH}?build={build_id}")
    assert "space" in page.text


@pytest.mark.parametrize("has_snapshot", [True, False])
async def test_a_job_links_to_its_snapshot(sample_dashboard: Dashboard, has_snapshot: bool) -> None:
    repo = await repo_of(sample_dashboard)
    build_id = (await build_queries.list_builds(sample_dashboard.db, repo.id))[-1].id
    environment = {
        "build_id": build_id if has_snapshot else None,
        "image": "python:3.12",
        "image_digest": f"sha256:{'b' * 64}",
        "key": None,
        "prepared_ms": 12,
    }
    job_id = sample_dashboard.samples["acme"].finished_job
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET environment = :text WHERE id = :id",
        id=job_id,
        text=msgspec.json.encode(environment).decode(),
    )
    page = await sample_dashboard.viewer.open(f"/jobs/{job_id}")
    assert "python:3.12 sha256:bbbbbbbbbbbb" in re.sub(r"\s+", " ", page.text)
    assert "prepared in 12 ms" in page.text
    assert (f'href="{PATH}?build={build_id}"' in page.html) is has_snapshot
    assert ("No snapshot" in page.text) is not has_snapshot


async def test_a_job_that_failed_with_its_environment_links_to_the_log(
    sample_dashboard: Dashboard,
) -> None:
    repo = await repo_of(sample_dashboard)
    build_id = (await build_queries.list_builds(sample_dashboard.db, repo.id))[0].id
    job_id = sample_dashboard.samples["acme"].failed_job
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET error_code = 'environment_failed', error_message = :text WHERE id = :id",
        id=job_id,
        text=f"setup failed\nThe whole log: `agentjobs repos environment log {build_id}`",
    )
    page = await sample_dashboard.viewer.open(f"/jobs/{job_id}")
    assert f'href="{PATH}?build={build_id}"' in page.html
    assert (await sample_dashboard.viewer.get(f"{PATH}?build={build_id}")).status_code == 200
