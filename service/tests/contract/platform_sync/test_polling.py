"""Polls of idle repositories spare the platform's rate limit."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentjobs.connections.connections import list_connections
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.platform_sync.hook_choices import register_hooks
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.state import RepositoryRow
from tests.support.polled_platform import polled_platform
from tests.support.repo_rows import update_repos

# What matters here are the requests to the platform; the store is tested with syncs.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

REPOSITORIES = 4
LOOKS_PER_HOUR = 12


@dataclass
class Polling:
    """A service that polls idle repositories of a GitHub server."""

    db: Database
    server: GitHubServer
    rows: list[RepositoryRow]
    loop: PlatformLoop

    async def look(self) -> None:
        """Sync each repository once, as if the time to poll it had come."""

        async def make_due(tx: Transaction) -> None:
            await update_repos(tx, "sync_due_at = 1, whole_due_at = NULL")

        await self.db.transact(make_due)
        for _ in self.rows:
            assert await self.loop.sync_next()
        assert not await self.loop.sync_next()

    async def register_hooks(self) -> None:
        """Both this service and the platform are on loopback."""
        connections = await list_connections(self.db, "default")
        name = connections[0].name
        await register_hooks(self.db, "default", name, [], "http://127.0.0.1:8000")

    async def errors(self) -> set[str | None]:
        rows = await self.db.fetch_all("SELECT error FROM repo_sync")
        return {row["error"] for row in rows}

    async def heads(self) -> set[str]:
        rows = await self.db.fetch_all("SELECT head_commit FROM repos")
        return {row["head_commit"] for row in rows}


@pytest.fixture
async def polling(database: Database, tmp_path: Path) -> AsyncIterator[Polling]:
    server = GitHubServer(tmp_path)
    rows = [server.add_repository(f"acme/r{at}", {"a": str(at)}) for at in range(REPOSITORIES)]
    for row in rows:
        row.pushed_at = "2026-01-02T03:04:05Z"
    async with polled_platform(database, tmp_path, server) as loop:
        server.used = 0
        yield Polling(database, server, rows, loop)


async def test_a_thousand_idle_repositories_use_less_than_half_of_the_hourly_limit(
    polling: Polling,
) -> None:
    for _ in range(LOOKS_PER_HOUR):
        await polling.look()
    assert await polling.errors() == {None}
    # Requests grow in proportion to the repositories.
    used_by_a_thousand = polling.server.used * 1_000 / REPOSITORIES
    assert used_by_a_thousand < polling.server.rate_limit / 2
    # One request in each look, of which only the first counts; git is asked in the first look only.
    assert polling.server.used == REPOSITORIES
    assert polling.server.not_modified == REPOSITORIES * (LOOKS_PER_HOUR - 1)
    fetches = len(polling.server.git_requests)
    await polling.look()
    # Once an hour the copy is compared anyway.
    assert len(polling.server.git_requests) > fetches


async def test_a_thousand_registered_webhooks_leave_more_than_half_of_the_limit(
    polling: Polling,
) -> None:
    for row in polling.rows:
        row.own_role = "admin"
    await polling.register_hooks()
    for _ in range(LOOKS_PER_HOUR):
        await polling.look()
    assert [len(row.hooks) for row in polling.rows] == [1] * REPOSITORIES
    # The repository, and in the first hour the list of webhooks and the new one.
    assert polling.server.used == 3 * REPOSITORIES

    async def check_again(tx: Transaction) -> None:
        await tx.execute("UPDATE repo_hooks SET due_at = 1")

    await polling.db.transact(check_again)
    polling.rows[0].hooks.clear()
    await polling.look()
    await polling.look()
    assert polling.server.used == 4 * REPOSITORIES + 1
    assert [len(row.hooks) for row in polling.rows] == [1] * REPOSITORIES
    assert await polling.errors() == {None}


async def test_a_push_is_seen_in_the_next_look(polling: Polling) -> None:
    await polling.look()
    await polling.look()
    commit = polling.server.git.commit(polling.rows[0], "main", {"b": "1"})
    await polling.look()
    assert commit in await polling.heads()
    # The time of a push has a resolution of a second, so a recent one is fetched again.
    pushed_at = polling.rows[0].pushed_at
    commit = polling.server.git.commit(polling.rows[0], "main", {"b": "2"})
    polling.rows[0].pushed_at = pushed_at
    await polling.look()
    assert commit in await polling.heads()


async def test_polls_wait_while_half_of_the_limit_is_used_and_show_no_error(
    polling: Polling,
) -> None:
    await polling.look()
    polling.server.rate_limit = 2 * REPOSITORIES
    polling.server.used = REPOSITORIES + 1
    await polling.look()
    polling.server.calls.clear()
    await polling.look()
    # The look before has learned the limit; none of these was sent.
    assert polling.server.calls == []
    assert await polling.errors() == {None}
    rows = await polling.db.fetch_all("SELECT due_at, failures FROM sync_queue")
    assert {row["failures"] for row in rows} == {0}
    assert all(row["due_at"] > now_ms() + 1_000_000 for row in rows)
