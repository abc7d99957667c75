"""Failures of a platform: retried, classified, reported clearly, and without a credential."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agentjobs.forges.protocol import CommentCursor
from tests.support.forge_adapters import PLATFORMS, PlatformBench, make_template, platform_bench
from tests.support.forge_servers import faults
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.github import primary_limit, secondary_limit


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=PLATFORMS)
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformBench]:
    async with platform_bench(request.param, tmp_path, template) as bench:
        yield bench


async def test_a_rate_limit_is_waited_out_and_reported(bench: PlatformBench) -> None:
    bench.server.next(faults.too_many(30))
    assert (await bench.platform.repository(bench.repo)).full_name == "acme/shop"
    (wait,) = bench.clock.waits
    assert 30 <= wait < 60
    assert len(bench.messages) == 1
    assert "rate limit" in bench.messages[0]


@pytest.mark.parametrize("bench", ["github", "github-app"], indirect=True)
async def test_both_limits_of_github_are_waited_out(bench: PlatformBench) -> None:
    bench.server.next(primary_limit(600))
    bench.server.next(secondary_limit(on=bench.creates))
    opened = await bench.open()
    assert 590 <= bench.clock.waits[0] < 700
    assert 60 <= bench.clock.waits[1] < 120
    assert list(bench.row.pulls) == [opened.number]


async def test_a_temporary_outage_is_waited_out(bench: PlatformBench) -> None:
    for fault in (
        faults.server_error(500),
        faults.web_page(502),
        faults.server_error(503),
        faults.cut(),
    ):
        bench.server.next(fault)
    assert (await bench.platform.repository(bench.repo)).full_name == "acme/shop"
    # The HTTP client itself may repeat a request whose connection was cut.
    assert len(bench.clock.waits) in (3, 4)
    assert bench.clock.waits == sorted(bench.clock.waits)


async def test_a_long_outage_is_reported_as_unavailable(bench: PlatformBench) -> None:
    bench.server.next(faults.server_error(500, times=None))
    error = await bench.refused(bench.platform.repository(bench.repo))
    assert error.fault == "away"
    assert sum(bench.clock.waits) <= 3_600
    bench.server.clear_faults()
    bench.server.next(faults.too_many(7_200))
    assert (await bench.refused(bench.platform.repository(bench.repo))).fault == "away"


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_response_never_opens_a_second_one(bench: PlatformBench, after: bool) -> None:
    bench.server.next(faults.cut(on=bench.creates, after=after))
    bench.server.next(faults.web_page(504, on=bench.creates, after=after))
    opened = await bench.open()
    assert list(bench.row.pulls) == [opened.number]


async def test_a_refused_credential_has_its_own_error(bench: PlatformBench) -> None:
    bench.server.next(faults.unauthorized(times=None))
    assert (await bench.refused(bench.platform.check())).fault == "unauthorized"
    error = await bench.refused(bench.platform.repository(bench.repo))
    assert error.fault == "unauthorized"
    assert "credential" in str(error)
    assert bench.clock.waits == []


async def test_a_missing_permission_is_named(bench: PlatformBench) -> None:
    bench.server.next(faults.forbidden("Resource not accessible", on=bench.creates, times=None))
    error = await bench.refused(bench.open())
    assert error.fault == "denied"
    assert "Resource not accessible" in str(error)
    needed = {"github": "ull requests", "gitlab": "scope api", "gitea": "epository"}
    assert needed[bench.server.platform] in str(error)
    assert bench.row.pulls == {}


async def test_a_web_page_and_a_truncated_response_have_clear_errors(bench: PlatformBench) -> None:
    for fault in (faults.web_page(200), faults.web_page(404), faults.broken_json()):
        bench.server.next(fault)
        error = await bench.refused(bench.platform.repository(bench.repo))
        assert "check the address" in str(error)
        assert error.fault == "refused"
        assert "<" not in str(error)


async def test_an_unexpected_response_is_a_forge_error(bench: PlatformBench) -> None:
    for content in (b"[]", b"null", b"{}", b'"text"', b'{"id": []}', b"[" * 100_000, b"\xff"):
        bench.server.next(Fault(status=200, raw=content, times=None))
        await bench.refused(bench.platform.check())
        await bench.refused(bench.platform.repository(bench.repo))
        await bench.refused(bench.platform.pull(bench.repo, 1))
        await bench.refused(bench.platform.issue("acme/shop", 1))
        bench.server.clear_faults()


async def test_invalid_values_are_refused_before_they_are_stored(
    bench: PlatformBench,
) -> None:
    opened = await bench.open()
    row = bench.row.pulls[opened.number]
    row.title = "A\x00change"
    assert (await bench.platform.pull(bench.repo, opened.number)).title == "A\ufffdchange"
    row.head_commit, row.state, row.is_merged = "no\x00commit", "closed", True
    written = bench.server.state.add_comment(row, "ada", "Hello")
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: bench.platform.pull(bench.repo, opened.number),
        lambda: bench.platform.comments(bench.repo, opened.number, CommentCursor()),
        lambda: bench.platform.repository(bench.repo),
        lambda: anext(aiter(bench.platform.repositories())),
    ]
    written.id = 2**63
    for at, ask in enumerate(requests):
        # Not earlier, because Gitea requests the repository first.
        bench.row.default_branch = "ma\x00in" if at >= 2 else "main"
        error = await bench.refused(ask())
        assert "returned an invalid" in str(error)
        assert str(error).isprintable()


async def test_a_redirect_loop_is_not_followed_forever(
    bench: PlatformBench,
) -> None:
    bench.server.next(faults.redirect_loop())
    error = await bench.refused(bench.platform.repository(bench.repo))
    assert error.fault == "refused"
    bench.server.clear_faults()
    headers = {"Location": "https://elsewhere.example/"}
    bench.server.next(Fault(status=302, raw=b"", headers=headers))
    error = await bench.refused(bench.platform.repository(bench.repo))
    assert error.fault == "refused"
    assert bench.clock.waits == []


async def test_a_credential_that_the_platform_echoes_is_not_leaked(
    bench: PlatformBench,
) -> None:
    message = "not for {credential} \x1b[31m\n\x00"
    for status in (400, 401, 403, 404, 422, 500):
        bench.server.next(Fault(status=status, message=message, times=None))
        error = await bench.refused(bench.platform.pull(bench.repo, 1))
        assert str(error).isprintable()
        bench.server.clear_faults()
    assert not [secret for secret in bench.known_secrets if secret in "".join(bench.messages)]


async def test_failing_extras_become_notes_and_the_pull_request_is_opened(
    bench: PlatformBench,
) -> None:
    bench.server.state.add_user("wanda")
    bench.row.roles["wanda"] = "write"
    extra_requests = {
        "github": ["POST /repos/{owner}/{repo}/issues/", "POST /repos/{owner}/{repo}/pulls/"],
        "gitlab": ["GET /users"],
        "gitea": ["POST /repos/{owner}/{repo}/issues/", "POST /repos/{owner}/{repo}/pulls/"],
    }
    for name in extra_requests[bench.server.platform]:
        bench.server.next(faults.forbidden("No", on=name, times=None))
    opened = await bench.open(labels=("bug",), reviewers=("wanda",))
    assert opened.notes
    assert list(bench.row.pulls) == [opened.number]
