"""Requests of a connection share its rate limit, and unchanged responses are not sent again."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.github.adapter import GitHub
from agentjobs.platforms.http.client import ApiError
from agentjobs.platforms.http.traffic import PollsPaused, TrafficRegistry
from agentjobs.platforms.protocol import RepoAddress
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.support.forge_servers.github import GitHubServer, primary_limit
from tests.support.manual_clock import ManualClock
from tests.support.platform_adapters import LOOPBACK, connection_to, credential_of

GET_REPO = "GET /repos/{owner}/{repo}"


class Harness:
    def __init__(self, server: GitHubServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.clock = ManualClock(server.clock())
        server.clock = self.clock
        self.registry = TrafficRegistry()
        self.row = server.add_repository("acme/shop", {"README.md": "shop"})
        self.repo = RepoAddress("acme", "acme/shop", "repo_1", str(self.row.id))

    def github(self, *, seconds: float = 0, is_poll: bool = False, as_app: bool = False) -> GitHub:
        """A new adapter, as for each operation."""
        budget = self.clock.retry_budget(seconds)
        budget.is_poll = is_poll
        connection = connection_to(self.server, as_app=as_app)
        return GitHub(
            connection,
            credential_of(self.server, connection),
            self.session,
            GitTransport(LOOPBACK, self.server.authorities),
            budget,
            traffic=self.registry,
        )


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    server = GitHubServer(tmp_path)
    async with server.serving(), new_session(LOOPBACK, str(server.authorities)) as session:
        yield Harness(server, session)


async def test_a_response_that_has_not_changed_does_not_count(harness: Harness) -> None:
    first = await harness.github().repository(harness.repo)
    assert await harness.github().repository(harness.repo) == first
    assert (harness.server.used, harness.server.not_modified) == (1, 1)
    harness.row.is_archived = True
    assert (await harness.github().repository(harness.repo)).is_archived
    assert (harness.server.used, harness.server.not_modified) == (2, 1)
    # What another connection has read is not shared, and neither is anything with another process.
    harness.registry = TrafficRegistry()
    await harness.github().repository(harness.repo)
    assert harness.server.not_modified == 1


async def test_a_repository_is_asked_for_once_in_a_look(harness: Harness) -> None:
    github = harness.github()
    await github.repository(harness.repo)
    async with github.open_remote(harness.repo, "") as remote:
        assert remote.url.endswith("/acme/shop.git")
    assert len(harness.server.calls_of(GET_REPO)) == 1
    # A later operation asks again: the name may belong to another repository by then.
    harness.clock.now += 60
    async with github.open_remote(harness.repo, ""):
        pass
    await github.repository(harness.repo)
    harness.clock.now += 60
    async with github.open_remote(harness.repo, ""):
        pass
    assert len(harness.server.calls_of(GET_REPO)) == 4


async def test_all_operations_wait_for_the_reset_of_a_rate_limit(harness: Harness) -> None:
    harness.server.next(primary_limit(600))
    with pytest.raises(ApiError, match="rate limit") as caught:
        await harness.github().repository(harness.repo)
    assert caught.value.retry_after_seconds == pytest.approx(600, rel=0.2)
    with pytest.raises(ApiError, match="rate limit") as caught:
        await harness.github().repository(harness.repo)
    assert caught.value.retry_after_seconds == pytest.approx(600, rel=0.2)
    # The second one was not sent. Another credential has its own limit, and who may wait succeeds.
    assert harness.server.calls == []
    await harness.github(as_app=True).repository(harness.repo)
    harness.server.calls.clear()
    await harness.github(seconds=900).repository(harness.repo)
    assert len(harness.server.calls) == 1


async def test_polls_leave_half_of_the_rate_limit_to_others(harness: Harness) -> None:
    harness.server.rate_limit = 10
    for number in range(6):
        harness.row.is_archived = number % 2 == 0
        await harness.github().repository(harness.repo)
    with pytest.raises(PollsPaused, match="Half of the requests") as caught:
        await harness.github(is_poll=True).repository(harness.repo)
    assert 3_500 < caught.value.retry_after_seconds <= 3_600
    await harness.github().repository(harness.repo)
    harness.clock.now += 3_601
    await harness.github(is_poll=True).repository(harness.repo)


async def test_a_check_shows_the_rate_limit(harness: Harness) -> None:
    for as_app, remaining in ((False, 4_998), (True, 4_998)):
        await harness.github().repository(harness.repo)
        limit = (await harness.github(as_app=as_app).check()).rate_limit
        assert limit is not None
        assert (limit.limit, limit.remaining) == (5_000, remaining)
