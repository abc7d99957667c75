"""Conformance suite for the webhooks that adapters register, against the API descriptions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.platform_adapters import PLATFORMS, PlatformHarness, platform_harness

URL = "https://agentjobs.example.org/hooks/github/fcn_1/repo_1"
SECRET = "0f3c" * 16


@pytest.fixture(params=PLATFORMS)
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformHarness]:
    async with platform_harness(request.param, tmp_path, template) as harness:
        harness.row.own_role = "admin"
        harness.secrets.append(SECRET)
        if isinstance(harness.server, GitHubServer):
            harness.server.app.permissions["repository_hooks"] = "write"
            harness.server.app.hook_url = ""
        yield harness


async def test_a_created_webhook_is_listed_and_deleted(harness: PlatformHarness) -> None:
    hooks = harness.platform.hooks
    assert await hooks.shared() is None
    assert await hooks.of_repository(harness.repo) == []
    created = await hooks.create(harness.repo, URL, SECRET)
    assert (created.target_url, created.is_complete, created.is_failing) == (URL, True, False)
    assert await hooks.of_repository(harness.repo) == [created]
    assert [row.secret for row in harness.row.hooks] == [SECRET]
    await hooks.delete(harness.repo, created.hook_id)
    assert harness.row.hooks == []
    # Somebody else may have deleted it.
    await hooks.delete(harness.repo, created.hook_id)


async def test_webhooks_are_found_among_many(harness: PlatformHarness) -> None:
    hooks = harness.platform.hooks
    await hooks.create(harness.repo, URL, SECRET)
    (row,) = harness.row.hooks
    harness.row.hooks[:0] = [
        type(row)(number, f"https://other.example/{number}", "", ["push"])
        for number in range(1, 120)
    ]
    listed = await hooks.of_repository(harness.repo)
    assert [hook.target_url for hook in listed if hook.is_complete] == [URL]
    assert len(listed) == 120


async def test_a_webhook_that_was_changed_is_incomplete(harness: PlatformHarness) -> None:
    hooks = harness.platform.hooks
    await hooks.create(harness.repo, URL, SECRET)
    (row,) = harness.row.hooks
    events = list(row.events)
    row.events = ["push_events" if harness.kind == "gitlab" else "push"]
    assert [hook.is_complete for hook in await hooks.of_repository(harness.repo)] == [False]
    row.events = events
    row.is_disabled, row.is_active = True, False
    assert [hook.is_complete for hook in await hooks.of_repository(harness.repo)] == [False]


async def test_a_missing_permission_is_named(harness: PlatformHarness) -> None:
    harness.row.own_role = "write"
    if harness.kind == "github-app" and isinstance(harness.server, GitHubServer):
        del harness.server.app.permissions["repository_hooks"]
    others = {"gitlab": "role Maintainer", "gitea": "admin of the repository"}
    expected = others.get(harness.kind, "Webhooks: read and write")
    hooks = harness.platform.hooks
    for request in (hooks.of_repository(harness.repo), hooks.create(harness.repo, URL, SECRET)):
        error = await harness.error_of(request)
        assert error.fault == "denied"
        assert expected in str(error)
    assert harness.clock.waits == [] or harness.kind == "github-app"


async def test_the_platforms_delivery_status_is_shown(harness: PlatformHarness) -> None:
    hooks = harness.platform.hooks
    await hooks.create(harness.repo, URL, SECRET)
    (row,) = harness.row.hooks
    row.last_response, row.paused_until = 502, "2026-11-17T08:00:00.000Z"
    (hook,) = await hooks.of_repository(harness.repo)
    text = {"gitlab": "paused the webhook until 2026-11-17T08:00", "gitea": ""}
    assert text.get(harness.kind, "502 Bad Gateway") in hook.delivery
    assert hook.is_failing is (harness.kind != "gitea")
    # GitLab delivers again by itself once the pause is over.
    assert hook.is_complete


async def test_the_webhook_of_an_app_serves_all_repositories(
    tmp_path: Path, template: Path
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        assert isinstance(harness.server, GitHubServer)
        harness.server.app.hook_url = URL
        harness.server.app.deliveries = [502, 200]
        shared = await harness.platform.hooks.shared()
        assert shared is not None
        assert (shared.target_url, shared.is_failing) == (URL, True)
        assert shared.delivery == "502 Invalid HTTP Response"
        account = await harness.platform.check()
        assert not any("Webhooks" in name for name in account.missing_extras)
        harness.server.app.hook_url = ""
        account = await harness.platform.check()
        assert any("Webhooks: read and write" in name for name in account.missing_extras)


async def test_refusals_of_an_address_say_why(tmp_path: Path, template: Path) -> None:
    async with platform_harness("gitlab", tmp_path, template) as harness:
        assert isinstance(harness.server, GitLabServer)
        harness.row.own_role = "maintain"
        harness.server.blocks_local_requests = True
        error = await harness.error_of(harness.platform.hooks.create(harness.repo, URL, SECRET))
        assert (error.fault, "Invalid url given" in str(error)) == ("refused", True)


async def test_webhooks_that_the_operator_turned_off_are_denied(
    tmp_path: Path, template: Path
) -> None:
    async with platform_harness("gitea", tmp_path, template) as harness:
        assert isinstance(harness.server, GiteaServer)
        harness.server.has_webhooks = False
        error = await harness.error_of(harness.platform.hooks.of_repository(harness.repo))
        assert error.fault == "denied"
        assert "webhooks disabled by administrator" in str(error)
