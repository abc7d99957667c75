"""Failures of a platform: retried, classified, reported clearly, and without a credential."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from agentjobs.platforms.http.client import ApiError
from agentjobs.platforms.protocol import CommentCursor
from tests.support.forge_servers import faults
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.github import primary_limit, secondary_limit
from tests.support.platform_adapters import PlatformHarness


async def test_a_rate_limit_is_waited_out_and_reported(harness: PlatformHarness) -> None:
    harness.server.next(faults.too_many(30))
    assert (await harness.platform.repository(harness.repo)).full_name == "acme/shop"
    (wait,) = harness.clock.waits
    assert 30 <= wait < 60
    assert len(harness.messages) == 1
    assert "rate limit" in harness.messages[0]


@pytest.mark.parametrize("harness", ["github", "github-app"], indirect=True)
async def test_both_limits_of_github_are_waited_out(harness: PlatformHarness) -> None:
    harness.server.next(primary_limit(600))
    harness.server.next(secondary_limit(on=harness.creates))
    opened = await harness.open()
    assert 590 <= harness.clock.waits[0] < 700
    assert 60 <= harness.clock.waits[1] < 120
    assert list(harness.row.pulls) == [opened.number]


async def test_a_temporary_outage_is_waited_out(harness: PlatformHarness) -> None:
    for fault in (
        faults.server_error(500),
        faults.web_page(502),
        faults.server_error(503),
        faults.cut(),
    ):
        harness.server.next(fault)
    assert (await harness.platform.repository(harness.repo)).full_name == "acme/shop"
    # The HTTP client itself may repeat a request whose connection was cut.
    assert len(harness.clock.waits) in (3, 4)
    assert harness.clock.waits == sorted(harness.clock.waits)


async def test_a_long_outage_is_reported_as_unavailable(harness: PlatformHarness) -> None:
    harness.server.next(faults.server_error(500, times=None))
    error = await harness.error_of(harness.platform.repository(harness.repo))
    assert error.fault == "away"
    assert sum(harness.clock.waits) <= 3_600
    harness.server.clear_faults()
    harness.server.next(faults.too_many(7_200))
    assert (await harness.error_of(harness.platform.repository(harness.repo))).fault == "away"


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_response_never_opens_a_second_one(
    harness: PlatformHarness, after: bool
) -> None:
    harness.server.next(faults.cut(on=harness.creates, after=after))
    harness.server.next(faults.web_page(504, on=harness.creates, after=after))
    opened = await harness.open()
    assert list(harness.row.pulls) == [opened.number]


async def test_a_refused_credential_has_its_own_error(harness: PlatformHarness) -> None:
    harness.server.next(faults.unauthorized(times=None))
    assert (await harness.error_of(harness.platform.check())).fault == "unauthorized"
    error = await harness.error_of(harness.platform.repository(harness.repo))
    assert error.fault == "unauthorized"
    assert "credential" in str(error)
    assert harness.clock.waits == []


async def test_a_missing_permission_is_named(harness: PlatformHarness) -> None:
    harness.server.next(faults.forbidden("Resource not accessible", on=harness.creates, times=None))
    error = await harness.error_of(harness.open())
    assert error.fault == "denied"
    assert "Resource not accessible" in str(error)
    needed = {"github": "ull requests", "gitlab": "scope api", "gitea": "epository"}
    assert needed[harness.server.platform] in str(error)
    assert harness.row.pulls == {}


async def test_a_web_page_and_a_truncated_response_have_clear_errors(
    harness: PlatformHarness,
) -> None:
    for fault in (faults.web_page(200), faults.web_page(404), faults.broken_json()):
        harness.server.next(fault)
        error = await harness.error_of(harness.platform.repository(harness.repo))
        assert "check the address" in str(error)
        assert error.fault == "unusable"
        assert "<" not in str(error)


async def test_an_unexpected_response_is_a_forge_error(harness: PlatformHarness) -> None:
    for content in (b"[]", b"null", b"{}", b'"text"', b'{"id": []}', b"[" * 100_000, b"\xff"):
        harness.server.next(Fault(status=200, raw=content, times=None))
        await harness.error_of(harness.platform.check())
        await harness.error_of(harness.platform.repository(harness.repo))
        await harness.error_of(harness.platform.pull(harness.repo, 1))
        await harness.error_of(harness.platform.issue("acme/shop", 1))
        harness.server.clear_faults()


async def test_invalid_values_are_refused_before_they_are_stored(
    harness: PlatformHarness,
) -> None:
    opened = await harness.open()
    row = harness.row.pulls[opened.number]
    row.title = "A\x00change"
    assert (await harness.platform.pull(harness.repo, opened.number)).title == "A\ufffdchange"
    row.head_commit, row.state, row.is_merged = "no\x00commit", "closed", True
    written = harness.server.state.add_comment(row, "ada", "Hello")
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: harness.platform.pull(harness.repo, opened.number),
        lambda: harness.platform.comments(harness.repo, opened.number, CommentCursor()),
        lambda: harness.platform.repository(harness.repo),
        lambda: anext(aiter(harness.platform.repositories())),
    ]
    written.id = 2**63
    for at, ask in enumerate(requests):
        # Not earlier, because Gitea requests the repository first.
        harness.row.default_branch = "ma\x00in" if at >= 2 else "main"
        error = await harness.error_of(ask())
        assert "returned an invalid" in str(error)
        assert str(error).isprintable()


async def test_a_wait_that_no_platform_means_is_bounded(harness: PlatformHarness) -> None:
    fault = faults.too_many()
    harness.server.next(replace(fault, headers={"Retry-After": "1e308"}, times=None))
    error = await harness.error_of(harness.platform.repository(harness.repo))
    assert isinstance(error, ApiError)
    assert (error.fault, error.retry_after_seconds <= 3_600) == ("away", True)


async def test_an_account_renamed_between_two_requests_is_followed(
    harness: PlatformHarness,
) -> None:
    """Reads are redirected; a write to the former name is repeated with the current one."""
    opened = await harness.open()
    harness.server.state.rename(harness.row, "renamed/shop")
    assert (await harness.platform.repository(harness.repo)).full_name == "renamed/shop"
    before = len(harness.server.calls)
    await harness.platform.comment(harness.repo, opened.number, "Hello")
    assert [comment.text for comment in harness.row.pulls[opened.number].comments] == ["Hello"]
    async with harness.platform.open_remote(harness.repo, "") as remote:
        assert remote.url.endswith("/renamed/shop.git")
    assert len(harness.server.calls) - before <= 6


async def test_a_redirect_loop_is_not_followed_forever(
    harness: PlatformHarness,
) -> None:
    harness.server.next(faults.redirect_loop())
    error = await harness.error_of(harness.platform.repository(harness.repo))
    assert error.fault == "unusable"
    harness.server.clear_faults()
    headers = {"Location": "https://elsewhere.example/"}
    harness.server.next(Fault(status=302, raw=b"", headers=headers))
    error = await harness.error_of(harness.platform.repository(harness.repo))
    assert error.fault == "unusable"
    assert harness.clock.waits == []


async def test_a_credential_that_the_platform_echoes_is_not_leaked(
    harness: PlatformHarness,
) -> None:
    message = "not for {credential} \x1b[31m\n\x00"
    for status in (400, 401, 403, 404, 422, 500):
        harness.server.next(Fault(status=status, message=message, times=None))
        error = await harness.error_of(harness.platform.pull(harness.repo, 1))
        assert str(error).isprintable()
        harness.server.clear_faults()
    assert not [secret for secret in harness.known_secrets if secret in "".join(harness.messages)]


async def test_failing_extras_become_notes_and_the_pull_request_is_opened(
    harness: PlatformHarness,
) -> None:
    harness.server.state.add_user("wanda")
    harness.row.roles["wanda"] = "write"
    extra_requests = {
        "github": ["POST /repos/{owner}/{repo}/issues/", "POST /repos/{owner}/{repo}/pulls/"],
        "gitlab": ["GET /users"],
        "gitea": ["POST /repos/{owner}/{repo}/issues/", "POST /repos/{owner}/{repo}/pulls/"],
    }
    for name in extra_requests[harness.server.platform]:
        harness.server.next(faults.forbidden("No", on=name, times=None))
    opened = await harness.open(labels=("bug",), reviewers=("wanda",))
    assert opened.notes
    assert list(harness.row.pulls) == [opened.number]
