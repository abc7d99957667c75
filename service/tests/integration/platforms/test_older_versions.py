"""Parts of the conformance suites on versions of platforms that lack what the service can do
without."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.protocol import RemoteHook
from service.tests.integration.platforms.test_commit_statuses import (  # noqa: F401 - the suite's tests
    test_a_result_is_reported_with_a_link_and_replaced_by_the_next,
)
from service.tests.integration.platforms.test_conformance import (  # noqa: F401 - the suite's tests
    test_a_draft_is_opened_as_a_draft_and_adopted_as_one,
    test_a_second_request_for_a_branch_returns_the_same_pull_request,
)
from service.tests.integration.platforms.test_hook_registration import (  # noqa: F401 - the suite's tests
    SECRET,
    test_a_created_webhook_is_listed_and_deleted,
)
from service.tests.integration.platforms.test_platform_conformance import (  # noqa: F401 - the suite's tests
    test_a_comment_is_posted_once,
    test_a_pull_request_is_shown_as_it_is_now,
    test_a_repository_is_found_after_it_was_renamed,
    test_a_repository_shows_why_it_cannot_be_connected,
    test_all_repositories_are_listed_however_many_pages_they_take,
    test_comments_are_returned_once_and_in_order,
    test_git_fetches_and_pushes_with_the_connections_credential,
    test_labels_and_reviewers_are_requested_and_failures_are_notes,
    test_line_comments_and_reviews_are_read_once,
    test_write_access_depends_on_the_role,
)
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.older_versions import GITHUB_ENTERPRISE_3_6, GITLAB_15_0
from tests.support.platform_adapters import PlatformHarness, platform_harness

OLDER_VERSIONS = {
    "github": GITHUB_ENTERPRISE_3_6,
    "github-app": GITHUB_ENTERPRISE_3_6,
    "gitlab": GITLAB_15_0,
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


@pytest.fixture(params=OLDER_VERSIONS)
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformHarness]:
    async with platform_harness(request.param, tmp_path, template) as harness:
        harness.server.older_version = OLDER_VERSIONS[request.param]
        harness.row.own_role = "admin"
        harness.secrets.append(SECRET)
        if isinstance(harness.server, GitHubServer):
            harness.server.app.permissions |= {"checks": "write", "repository_hooks": "write"}
            harness.server.app.hook_url = ""
        yield harness


async def test_a_connection_has_no_rate_limit_and_misses_nothing(harness: PlatformHarness) -> None:
    account = await harness.platform.check()
    assert (account.rate_limit, account.missing) == (None, ())
    assert account.identity is not None


async def test_a_webhook_of_an_app_is_known(harness: PlatformHarness) -> None:
    if isinstance(harness.server, GitHubServer):
        harness.server.app.hook_url = "https://agentjobs.example.org/hooks/github/fcn_1"
    shared = await harness.platform.hooks.shared()
    assert isinstance(shared, RemoteHook) == (harness.kind == "github-app")


async def test_a_key_for_signatures_is_registered_or_the_reason_names_the_version(
    harness: PlatformHarness,
) -> None:
    registering = harness.platform.register_signing_key("agentjobs", KEY)
    if harness.kind == "gitlab":
        await registering
        return
    error = await harness.error_of(registering)
    assert error.fault == "denied"
    if harness.kind == "github":
        assert "older than 3.7" in str(error)
