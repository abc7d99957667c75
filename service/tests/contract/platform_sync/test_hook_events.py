"""Deliveries of webhooks count once, and what they make due, on both stores."""

from pathlib import Path

import pytest

from agentjobs.platform_sync import hook_events
from agentjobs.platform_sync.claims import claim_due_sync, next_due_at
from agentjobs.platform_sync.hook_events import (
    DeliveryStatus,
    prune_hook_events,
    record_hook_delivery,
)
from agentjobs.platforms.hooks import HookEvent
from agentjobs.store.database import Database, Row
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.settings import load
from tests.support.platform_sync import SHOP, SyncEnvironment, sync_environment
from tests.support.repo_rows import SELECT

PUSH = HookEvent("push", SHOP)


@pytest.fixture
async def env(database: Database, tmp_path: Path) -> SyncEnvironment:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    env = await sync_environment(database, settings, Remote("https://nowhere.example"))
    await env.connect()
    return env


async def receive(
    env: SyncEnvironment, delivery_id: str, event: HookEvent | None
) -> DeliveryStatus:
    return await record_hook_delivery(env.db, env.connection.id, delivery_id, event)


async def postpone(env: SyncEnvironment, failures: int = 0) -> None:
    await env.update_repos(
        "sync_due_at = :later, sync_failures = :failures",
        later=now_ms() + 3_600_000,
        failures=failures,
    )


async def makes_due(env: SyncEnvironment, delivery_id: str, event: HookEvent) -> bool:
    await receive(env, delivery_id, event)
    return await env.seconds_until_due() <= 0


async def test_a_delivery_is_stored_once_and_wakes_waiters(env: SyncEnvironment) -> None:
    with env.db.changes.listen("platforms") as signal:
        assert await receive(env, "one", PUSH) == "new"
        assert await signal.wait(30)
    assert await receive(env, "one", PUSH) == "known"
    assert await receive(env, "one", HookEvent("repository", SHOP)) == "known"
    assert await receive(env, "two", None) == "unconnected"
    # Deliveries about repositories that are not connected are not stored.
    assert await receive(env, "three", HookEvent("push", "999")) == "unconnected"
    assert len(await env.db.fetch_all("SELECT id FROM platform_hints")) == 1
    row = await env.db.fetch_one("SELECT hook_seen_at FROM platform_connections")
    assert row is not None
    assert now_ms() - row["hook_seen_at"] < 60_000


async def test_an_event_makes_its_repository_due_once(
    env: SyncEnvironment,
) -> None:
    await postpone(env)
    assert await makes_due(env, "one", PUSH)
    await postpone(env)
    assert not await makes_due(env, "one", PUSH)
    assert not await makes_due(env, "pull of another tool", HookEvent("pull", SHOP, 7))
    await env.record_pull(7, "fix-7")
    assert await makes_due(env, "pull of ours", HookEvent("comment", SHOP, 7))
    await postpone(env)
    await env.execute("UPDATE pulls SET state = 'merged'")
    assert not await makes_due(env, "merged", HookEvent("comment", SHOP, 7))
    assert await makes_due(env, "whole connection", HookEvent("repository"))


async def test_a_busy_repository_is_not_synced_for_every_push(env: SyncEnvironment) -> None:
    await postpone(env)
    await env.update_repos("synced_at = :now", now=now_ms())
    assert not await makes_due(env, "one", PUSH)
    assert 0 < await env.seconds_until_due() <= 10


async def test_a_failing_repository_keeps_its_backoff(env: SyncEnvironment) -> None:
    await postpone(env, failures=3)
    assert not await makes_due(env, "one", PUSH)
    assert await makes_due(env, "two", HookEvent("repository", SHOP))


async def test_only_repositories_with_hooks_are_polled_less_often(env: SyncEnvironment) -> None:
    env.change_repo("42", full_name="acme/other")
    await env.connect("acme/other")
    for delivery_id, event in (("one", PUSH), ("two", HookEvent("repository"))):
        await receive(env, delivery_id, event)
    hook_seen_at = {row["external_id"]: row["hook_seen_at"] for row in await repos(env)}
    assert hook_seen_at["42"] is None
    assert now_ms() - hook_seen_at[SHOP] < 60_000
    next_due = {}
    while (due := await claim_due_sync(env.db)) is not None:
        next_due[due.repo.external_id] = next_due_at(due, 300, 0)
    assert next_due == {SHOP: 3_600_000, "42": 300_000}
    # Hooks signed with an old secret do not count.
    await env.execute("UPDATE platform_connections SET hook_seen_at = NULL")
    await env.update_repos("sync_due_at = 1, sync_lease_until = NULL")
    due = await claim_due_sync(env.db)
    assert due is not None
    assert next_due_at(due, 300, 0) == 300_000


async def repos(env: SyncEnvironment) -> list[Row]:
    return await env.db.fetch_all(SELECT)


async def test_deliveries_are_deleted_after_a_day(
    env: SyncEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await receive(env, "one", PUSH)
    assert await prune_hook_events(env.db, now_ms()) == 0
    assert await prune_hook_events(env.db, now_ms() + DAY_MS + 1000) == 1
    # A connection with very many deliveries keeps fewer.
    await receive(env, "two", PUSH)
    monkeypatch.setattr(hook_events, "MAX_STORED", 0)
    assert await prune_hook_events(env.db, now_ms()) == 1
