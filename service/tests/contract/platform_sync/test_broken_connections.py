"""A connection that stops working: its reason is shown, and its repositories cost few requests
until it works again."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.platforms.http import client
from agentjobs.store.database import Database, Transaction
from tests.support.forge_servers import faults
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.polled_platform import polled_platform
from tests.support.repo_rows import update_repos

# What matters here are the requests to the platform; the store is tested with syncs.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

REPOSITORIES = 2
MAX_REQUESTS = 12


@dataclass
class Connected:
    """A service that follows repositories of one connection."""

    db: Database
    server: ContractServer
    loop: PlatformLoop
    requests: list[str] = field(default_factory=list)

    async def look(self) -> int:
        """Sync what is due, as if the time to poll had come; returns the number of requests."""

        async def make_due(tx: Transaction) -> None:
            await update_repos(tx, "sync_due_at = 1, whole_due_at = NULL")
            await tx.execute("UPDATE platform_connections SET resting_until = NULL")

        await self.db.transact(make_due)
        self.requests.clear()
        while await self.loop.sync_next():
            pass
        return len(self.requests)

    async def errors(self) -> tuple[set[str | None], str | None]:
        """Of the repositories, and of the connection."""
        rows = await self.db.fetch_all("SELECT error FROM repo_sync")
        connection = await self.db.fetch_one("SELECT error FROM platform_connections")
        assert connection is not None
        return {row["error"] for row in rows}, connection["error"]


@pytest.fixture(params=[GitHubServer, GitLabServer, GiteaServer])
async def connected(
    request: pytest.FixtureRequest,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Connected]:
    # A new token that is refused is tried again for seconds.
    monkeypatch.setattr(client, "_REPLICATION_WAITS", ())
    server: ContractServer = request.param(tmp_path)
    for at in range(REPOSITORIES):
        server.add_repository(f"acme/r{at}", {"a": str(at)})
    requests: list[str] = []
    handle = server.handle

    async def record(sent: web.Request) -> web.StreamResponse:
        requests.append(f"{sent.method} {sent.path}")
        return await handle(sent)

    server.handle = record  # type: ignore[method-assign]
    async with polled_platform(database, tmp_path, server, as_app=True) as loop:
        connected = Connected(database, server, loop, requests)
        await connected.look()
        assert await connected.errors() == ({None}, None)
        yield connected


Change = Callable[[], object]


def breakages(server: ContractServer) -> dict[str, tuple[Change, Change]]:
    """What the connection's error says, and how each breakage begins and ends."""
    responses = {
        "returned a web page": faults.web_page(200, times=None),
        "unexpected response": Fault(status=200, raw=b"[]", times=None),
        "does not accept the credential": faults.unauthorized(times=None),
        "account has been blocked": faults.forbidden("The account has been blocked.", times=None),
    }
    found: dict[str, tuple[Change, Change]] = {
        reason: (lambda fault=fault: server.next(fault), server.clear_faults)  # type: ignore[misc]
        for reason, fault in responses.items()
    }
    if isinstance(server, GiteaServer):
        scopes = server.scopes
        found["read:repository"] = (
            lambda: setattr(server, "scopes", {"read:user"}),
            lambda: setattr(server, "scopes", scopes),
        )
    if isinstance(server, GitHubServer):
        app = server.app

        def change(**fields: object) -> None:
            # GitHub revokes the tokens.
            app.tokens.clear()
            vars(app).update(fields)

        granted = dict(app.permissions)
        found["is suspended"] = (
            lambda: change(is_suspended=True),
            lambda: change(is_suspended=False),
        )
        found["no installation 815"] = (
            lambda: change(installation_id=9),
            lambda: change(installation_id=815),
        )
        found["“Pull requests: read and write”"] = (
            lambda: change(permissions={**granted, "pull_requests": "read"}),
            lambda: change(permissions=granted),
        )
    return found


async def test_the_reason_is_shown_and_few_requests_are_sent_until_it_works_again(
    connected: Connected, subtests: pytest.Subtests
) -> None:
    for reason, (begin, end) in breakages(connected.server).items():
        with subtests.test(reason):
            begin()
            sent = await connected.look()
            repo_errors, error = await connected.errors()
            assert reason in (error or "")
            assert repo_errors == {error}
            # One repository finds out for all of them.
            assert sent <= MAX_REQUESTS, connected.requests
            assert not await connected.loop.sync_next()
            end()
    await connected.look()
    assert await connected.errors() == ({None}, None)
